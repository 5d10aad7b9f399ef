#include "dispatcher/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "dispatcher/full_disk.h"

namespace penstock::dispatcher {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

class SqliteStoreTest : public testing::Test {
 protected:
  SqliteStoreTest() : dir_(testing::TempDir() + "penstock-store-" + std::to_string(::getpid())) { std::filesystem::remove_all(dir_); }
  ~SqliteStoreTest() override { std::filesystem::remove_all(dir_); }

  std::unique_ptr<Store> Open() {
    Result<std::unique_ptr<Store>> store = OpenSqliteStore(dir_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? std::move(*store) : nullptr;
  }

  const std::string dir_;
};

TEST_F(SqliteStoreTest, KeepsWhatWasCommittedAndCountsItsStarts) {
  std::string cluster;
  {
    auto store = Open();
    cluster = store->cluster();
    EXPECT_EQ(store->term(), Term{1});
    ASSERT_TRUE(store->Commit({{"a", "1"}, {"b", std::string("\0\xff", 2)}, {"c", "3"}}).ok());
    ASSERT_TRUE(store->Commit({{"c", std::nullopt}, {"a", "2"}}).ok());
  }
  auto store = Open();
  EXPECT_EQ(store->cluster(), cluster);
  EXPECT_EQ(store->term(), Term{2});
  EXPECT_THAT(*store->Load(), UnorderedElementsAre(Pair("a", "2"), Pair("b", std::string("\0\xff", 2))));
}

TEST_F(SqliteStoreTest, ASecondDispatcherIsRefusedAndToldWhoTheFirstIs) {
  auto first = Open();
  ASSERT_TRUE(first->Announce("127.0.0.1:5050").ok());
  const Result<std::unique_ptr<Store>> second = OpenSqliteStore(dir_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
  EXPECT_THAT(second.status().message(), HasSubstr(":" + std::to_string(::getpid()) + " at 127.0.0.1:5050"));
  first.reset();
  EXPECT_EQ(Open()->term(), Term{2}) << "the refused one did not count";
}

TEST_F(SqliteStoreTest, WhatItMakesIsForItsUserAloneAndWhatWasThereStaysAsItWas) {
  const auto mode = [](const std::string& path) { return static_cast<unsigned>(std::filesystem::status(path).permissions()); };
  const mode_t before = ::umask(0);
  auto store = Open();
  ASSERT_TRUE(store->Commit({{"a", "1"}}).ok());
  ::umask(before);
  EXPECT_EQ(mode(dir_), 0700u);
  for (const auto& file : std::filesystem::directory_iterator(dir_)) EXPECT_EQ(mode(file.path()), 0600u) << file.path();
  store.reset();
  std::filesystem::permissions(dir_, std::filesystem::perms{0750});
  Open();
  EXPECT_EQ(mode(dir_), 0750u);
}

TEST_F(SqliteStoreTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::ofstream(dir_) << "a file";
  const Status error = OpenSqliteStore(dir_ + "/state").status();
  EXPECT_EQ(error.code(), Code::kPermission);
  EXPECT_THAT(error.message(), HasSubstr(dir_ + "/state"));
  EXPECT_THAT(error.message(), HasSubstr("--state-dir"));
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsNamed) {
  std::filesystem::create_directories(dir_);
  std::ofstream(dir_ + "/state.db") << std::string(8192, 'x');
  const Status error = OpenSqliteStore(dir_).status();
  EXPECT_EQ(error.code(), Code::kData);
  EXPECT_THAT(error.message(), HasSubstr("state.db"));
}

TEST_F(SqliteStoreTest, AStoreOfALaterVersionIsRefusedAndLeftAsItWas) {
  const auto set_format = [&](const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((dir_ + "/state.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
  };
  Open().reset();
  set_format("UPDATE meta SET value = '2' WHERE name = 'format'");
  const Status error = OpenSqliteStore(dir_).status();
  EXPECT_EQ(error.code(), Code::kMismatch);
  EXPECT_THAT(error.message(), HasSubstr("later version of penstock (format 2)"));
  set_format("UPDATE meta SET value = '1' WHERE name = 'format'");
  EXPECT_EQ(Open()->term(), Term{2}) << "the refused start did not count";
}

TEST_F(SqliteStoreTest, AWriteThatDoesNotFitIsAnErrorAndNothingOfItStays) {
  auto store = Open();
  ASSERT_TRUE(store->Commit({{"a", "1"}}).ok());
  const Status status = [&] {
    const FullDisk full;
    return store->Commit({{"a", "2"}, {"big", std::string(4 << 20, 'x')}});
  }();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("state.db"));
  EXPECT_THAT(status.message(), HasSubstr("the disk is full"));
  EXPECT_THAT(*store->Load(), UnorderedElementsAre(Pair("a", "1"))) << "no half of it is left open";
  store.reset();
  EXPECT_THAT(*Open()->Load(), UnorderedElementsAre(Pair("a", "1")));
}

TEST(MemoryStore, KeepsWhatWasCommitted) {
  auto store = MakeMemoryStore();
  ASSERT_TRUE(store->Commit({{"a", "1"}, {"b", "2"}}).ok());
  ASSERT_TRUE(store->Commit({{"b", std::nullopt}}).ok());
  EXPECT_THAT(*store->Load(), UnorderedElementsAre(Pair("a", "1")));
}

}  // namespace
}  // namespace penstock::dispatcher
