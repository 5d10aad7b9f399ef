#include "wire/tls.h"

#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "wire/session_fixture.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

// An authority whose only certificate is its own: PEM files of certificate and key.
TlsFiles MakeAuthority(const std::string& name, const char* alternative, long seconds = 3600) {
  const std::string path = ::testing::TempDir() + "penstock-" + std::to_string(getpid()) + "-" + name;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
  X509_set_version(cert.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), seconds);
  X509_NAME* subject = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(cert.get(), subject);
  X509_set_pubkey(cert.get(), key.get());
  X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative);
  X509_add_ext(cert.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(cert.get(), key.get(), EVP_sha256());
  const std::unique_ptr<FILE, decltype(&fclose)> cert_file(fopen((path + ".pem").c_str(), "w"), fclose);
  const std::unique_ptr<FILE, decltype(&fclose)> key_file(fopen((path + ".key").c_str(), "w"), fclose);
  PEM_write_X509(cert_file.get(), cert.get());
  PEM_write_PrivateKey(key_file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {.ca = path + ".pem", .cert = path + ".pem", .key = path + ".key"};
}

class TlsTest : public SessionTest {
 protected:
  static TlsFiles Ours() {
    static const TlsFiles files = MakeAuthority("ours", "DNS:penstock");
    return files;
  }
  static std::shared_ptr<const Tls> Loaded(const TlsFiles& files) { return Tls::Load(files).value(); }
  void ServeTls(const TlsFiles& files, std::string token = {}) { Serve({.address = "127.0.0.1:0", .token = std::move(token), .tls = Loaded(files)}); }
};

TEST_F(TlsTest, CarriesRequestsAndBlocksOfManySizes) {
  ServeTls(Ours());
  ConnectPair({.tls = Loaded(Ours())});
  const std::string long_plan(9 * kMiB + 5, 'p');
  EXPECT_EQ(std::get<msg::Registered>(Ask(msg::Register{long_plan}).value()).dataset, long_plan);
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{63}, 16 * kKiB - 40, 16 * kKiB, 64 * kKiB + 1, 3 * kMiB}) {
    On(server_io_, [&] {
      Extent block = HeapExtents().Allocate(bytes).value();
      for (size_t i = 0; i < bytes; ++i) block.bytes()[i] = static_cast<std::byte>(i * 31 + bytes);
      accepted_->SendBlock(StreamId{5}, std::move(block), Handover::kLend);
    });
    const Extent block = client_.TakeBlock();
    ASSERT_EQ(block.size(), bytes);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(block.bytes()[i], static_cast<std::byte>(i * 31 + bytes));
  }
}

TEST_F(TlsTest, ALargeBlockDoesNotHoldUpWhatFollows) {
  ServeTls(Ours());
  ConnectPair({.tls = Loaded(Ours())});
  On(server_io_, [&] {
    accepted_->SendBlock(StreamId{1}, HeapExtents().Allocate(64 * kMiB).value(), Handover::kCopy);
    accepted_->Send(StreamId{1}, msg::LaneEnded{{1, 0}, true});
  });
  EXPECT_EQ(client_.TakeBlock().size(), 64 * kMiB);
  client_.WaitFor([this] { return client_.heard.size() == 1; });
}

TEST_F(TlsTest, APlainClientIsToldWhatItLacks) {
  ServeTls(Ours());
  const Status refused = TryConnect().status();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_THAT(refused.message(), HasSubstr("PENSTOCK_TLS_CA"));
}

TEST_F(TlsTest, AClientWithoutACertificateNeedsTheToken) {
  ServeTls(Ours(), "secret");
  const auto authority_alone = Loaded({.ca = Ours().ca, .cert = {}, .key = {}});
  EXPECT_TRUE(TryConnect({.token = "secret", .tls = authority_alone}).ok());
  EXPECT_THAT(TryConnect({.tls = authority_alone}).status().message(), HasSubstr("PENSTOCK_TOKEN_FILE"));
}

TEST_F(TlsTest, AnotherAuthoritysServerAndClientAreRefused) {
  const TlsFiles theirs = MakeAuthority("theirs", "DNS:penstock");
  ServeTls(Ours());
  const Status server_refused = TryConnect({.tls = Loaded(theirs)}).status();
  EXPECT_EQ(server_refused.code(), Code::kPermission);
  EXPECT_THAT(server_refused.message(), HasSubstr("PENSTOCK_TLS_CA"));
  const Status client_refused = TryConnect({.tls = Loaded({.ca = Ours().ca, .cert = theirs.cert, .key = theirs.key})}).status();
  EXPECT_EQ(client_refused.code(), Code::kPermission);
  EXPECT_THAT(client_refused.message(), HasSubstr("PENSTOCK_TLS_CERT"));
}

TEST_F(TlsTest, ACertificateIsGoodForItsHostAlone) {
  ServeTls(MakeAuthority("elsewhere", "DNS:elsewhere"));
  const TlsFiles files = MakeAuthority("here", "IP:127.0.0.1");
  const auto elsewhere = Loaded({.ca = ::testing::TempDir() + "penstock-" + std::to_string(getpid()) + "-elsewhere.pem", .cert = {}, .key = {}});
  EXPECT_THAT(TryConnect({.tls = elsewhere}).status().message(), HasSubstr("subjectAltName"));
  ServeTls(files, "secret");
  EXPECT_TRUE(TryConnect({.token = "secret", .tls = Loaded(files)}).ok());
}

TEST(Tls, ACertificateAndAnAuthorityThatHaveExpiredAreNamedWithTheTime) {
  const TlsFiles old = MakeAuthority("old", "DNS:penstock", -1);
  for (const TlsFiles& files : {TlsFiles{old.ca, {}, {}}, TlsFiles{{}, old.cert, old.key}}) {
    const Status refused = Tls::Load(files).status();
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr(old.ca + " expired at 20"));
    EXPECT_THAT(refused.message(), HasSubstr("renew it"));
  }
}

TEST(Tls, OneOfSeveralAuthoritiesMayHaveExpired) {
  const TlsFiles old = MakeAuthority("old", "DNS:penstock", -1);
  const TlsFiles good = MakeAuthority("good", "DNS:penstock");
  const std::string both = ::testing::TempDir() + "penstock-" + std::to_string(getpid()) + "-both.pem";
  std::ofstream(both) << std::ifstream(old.ca).rdbuf() << std::ifstream(good.ca).rdbuf();
  EXPECT_TRUE(Tls::Load({both, {}, {}}).ok());
}

TEST(Tls, AFileThatIsNoneIsNamed) {
  const std::string path = ::testing::TempDir() + "penstock-no-pem";
  std::ofstream(path) << "no certificate";
  for (const TlsFiles& files : {TlsFiles{path, {}, {}}, TlsFiles{{}, path, path}, TlsFiles{"/no/such/file", {}, {}}}) {
    const Status refused = Tls::Load(files).status();
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_THAT(refused.message(), HasSubstr(files.ca.empty() ? files.cert : files.ca));
  }
  EXPECT_THAT(Tls::Load({.ca = {}, .cert = path, .key = {}}).status().message(), HasSubstr("--tls-key"));
}

TEST(Tls, AKeyOfAnotherCertificateIsNamedWithIt) {
  const TlsFiles one = MakeAuthority("one", "DNS:penstock");
  const TlsFiles two = MakeAuthority("two", "DNS:penstock");
  EXPECT_THAT(Tls::Load({.ca = {}, .cert = one.cert, .key = two.key}).status().message(),
              HasSubstr("the TLS key " + two.key + " is not that of the certificate " + one.cert + ": name two that were made together"));
}

TEST(Tls, AFileThatCannotBeReadIsSaidToBeThatWithItsVariable) {
  const Status absent = Tls::Load({.ca = "/no/such/file", .cert = {}, .key = {}}).status();
  EXPECT_THAT(absent.message(), HasSubstr("cannot read the TLS authority /no/such/file (No such file or directory): --tls-ca or PENSTOCK_TLS_CA"));
  EXPECT_THAT(Tls::Load({.ca = {}, .cert = "/dev/null", .key = "/no"}).status().message(), HasSubstr("/dev/null (it is empty): --tls-cert"));
  EXPECT_THAT(Tls::Load({.ca = ::testing::TempDir(), .cert = {}, .key = {}}).status().message(), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace penstock
