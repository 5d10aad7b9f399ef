// The store on disk: SQLite in WAL mode, synchronous=FULL, one table of keys.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/guarded.h"
#include "dispatcher/cluster_id.h"
#include "dispatcher/state_lock.h"
#include "dispatcher/store.h"

namespace penstock::dispatcher {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

// "format" would rise with a change that an older dispatcher must not read.
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS state(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;"
    "INSERT OR IGNORE INTO meta VALUES('format', '1'), ('term', '0');";

// A quota and a limit on a file's size come as errors of input and output, with the system's number.
bool IsFull(sqlite3* db) {
  const int error = sqlite3_system_errno(db);
  return (sqlite3_errcode(db) & 0xff) == SQLITE_FULL ||
         ((sqlite3_errcode(db) & 0xff) == SQLITE_IOERR && (error == ENOSPC || error == EDQUOT || error == EFBIG));
}

std::string ThisProcess() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(::getpid());
}

class SqliteStore final : public Store {
 public:
  SqliteStore(std::string path, StateLock lock, Database db) : path_(std::move(path)), lock_(std::move(lock)), db_(std::move(db)) {}

  Status Begin();

  const std::string& cluster() const override { return cluster_; }
  Term term() const override { return term_; }
  Result<std::map<std::string, std::string>> Load() override;
  Status Announce(const std::string& address) override { return lock_.Describe(ThisProcess() + " at " + address); }
  Status Commit(const std::vector<Write>& writes) override;

 private:
  Status CheckFormat();
  Status Run(const char* sql);
  Result<Statement> Prepare(const char* sql);
  Result<std::string> Meta(const char* name);
  Status WriteAll(const std::vector<Write>& writes);
  Status Apply(const Write& write);
  Status Failure(const std::string& doing) const;

  const std::string path_;
  StateLock lock_;
  Database db_;
  Statement put_;
  Statement remove_;
  std::string cluster_;
  Term term_{};
};

Status SqliteStore::Failure(const std::string& doing) const {
  const int code = sqlite3_errcode(db_.get());
  const std::string what = doing + " " + path_ + ": " + sqlite3_errmsg(db_.get());
  if (IsFull(db_.get())) {
    return Status(Code::kUnavailable, what + "; the disk is full: make room and start the dispatcher again").With("file", path_);
  }
  switch (code & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return Status(Code::kPermission, what + "; give this user write access, or choose another --state-dir").With("file", path_);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Status(Code::kData, what + "; restore it from a copy, or start with an empty --state-dir").With("file", path_);
    default: return Status(Code::kUnavailable, what).With("file", path_);
  }
}

Status SqliteStore::Run(const char* sql) {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Failure("cannot write to");
  return {};
}

Result<Statement> SqliteStore::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) return Failure("cannot read");
  return Statement(statement);
}

Result<std::string> SqliteStore::Meta(const char* name) {
  PENSTOCK_ASSIGN(Statement statement, Prepare("SELECT value FROM meta WHERE name = ?"));
  sqlite3_bind_text(statement.get(), 1, name, -1, SQLITE_STATIC);
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return std::string();
  if (code != SQLITE_ROW) return Failure("cannot read");
  return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0)));
}

// Before anything is written: a store of a later version stays as it is.
Status SqliteStore::CheckFormat() {
  PENSTOCK_ASSIGN(Statement tables, Prepare("SELECT 1 FROM sqlite_master WHERE name = 'meta'"));
  if (sqlite3_step(tables.get()) != SQLITE_ROW) return {};  // a new one; what else is wrong with it shows when it is written to
  PENSTOCK_ASSIGN(const std::string format, Meta("format"));
  if (format.empty() || format == "1") return {};
  return Status(Code::kMismatch, path_ + " was written by a later version of penstock (format " + format + "): use that version").With("file", path_);
}

Status SqliteStore::Begin() {
  PENSTOCK_TRY(Run(kGuarded ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" : "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"));
  PENSTOCK_TRY(Run("BEGIN IMMEDIATE"));
  PENSTOCK_TRY(CheckFormat());
  PENSTOCK_TRY(Run(kSchema));
  PENSTOCK_TRY(Run(("INSERT OR IGNORE INTO meta VALUES('cluster', '" + NewClusterId() + "')").c_str()));
  PENSTOCK_TRY(Run("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE name = 'term'"));
  PENSTOCK_TRY(Run("COMMIT"));
  PENSTOCK_ASSIGN(cluster_, Meta("cluster"));
  PENSTOCK_ASSIGN(const std::string term, Meta("term"));
  term_ = Term{std::strtoull(term.c_str(), nullptr, 10)};
  PENSTOCK_ASSIGN(put_, Prepare("INSERT OR REPLACE INTO state VALUES(?, ?)"));
  PENSTOCK_ASSIGN(remove_, Prepare("DELETE FROM state WHERE key = ?"));
  return {};
}

Result<std::map<std::string, std::string>> SqliteStore::Load() {
  PENSTOCK_ASSIGN(Statement statement, Prepare("SELECT key, value FROM state"));
  const auto blob = [&](int column) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement.get(), column));
    return std::string(bytes == nullptr ? "" : bytes, static_cast<size_t>(sqlite3_column_bytes(statement.get(), column)));
  };
  std::map<std::string, std::string> values;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) values[blob(0)] = blob(1);
  if (code != SQLITE_DONE) return Failure("cannot read");
  return values;
}

Status SqliteStore::Apply(const Write& write) {
  sqlite3_stmt* statement = write.value.has_value() ? put_.get() : remove_.get();
  sqlite3_bind_blob64(statement, 1, write.key.data(), write.key.size(), SQLITE_STATIC);
  if (write.value.has_value()) sqlite3_bind_blob64(statement, 2, write.value->data(), write.value->size(), SQLITE_STATIC);
  const int code = sqlite3_step(statement);
  Status status = code == SQLITE_DONE ? Status() : Failure("cannot write to");
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  return status;
}

Status SqliteStore::Commit(const std::vector<Write>& writes) {
  if (writes.empty()) return {};
  Status status = WriteAll(writes);
  // The reason is in `status`; this only ends a transaction that may be open still.
  if (!status.ok()) sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

Status SqliteStore::WriteAll(const std::vector<Write>& writes) {
  PENSTOCK_TRY(Run("BEGIN IMMEDIATE"));
  for (const Write& write : writes) PENSTOCK_TRY(Apply(write));
  return Run("COMMIT");
}

}  // namespace

namespace {

// Plans hold what users wrote, names of files and code: what is made here is for this user alone. What is there already stays as it is.
Status MakeStateDir(const std::string& dir) {
  std::error_code error;
  std::filesystem::path path(dir);
  if (!path.has_filename()) path = path.parent_path();
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (!error && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
  if (!error && !std::filesystem::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) return {};
  return Status(Code::kPermission, "cannot make the state directory " + dir + ": " + error.message() + "; choose another with --state-dir")
      .With("file", dir);
}

// Before SQLite does; its files beside it get the same mode.
void MakeOwnersFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);  // else SQLite says why
}

}  // namespace

Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& dir) {
  PENSTOCK_TRY(MakeStateDir(dir));
  PENSTOCK_ASSIGN(StateLock lock, StateLock::Take(dir));
  PENSTOCK_TRY(lock.Describe(ThisProcess()));
  const std::string path = dir + "/state.db";
  MakeOwnersFile(path);
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) {
    return Status(Code::kPermission,
                  "cannot open " + path + ": " + sqlite3_errstr(code) + "; give this user write access, or choose another --state-dir")
        .With("file", path);
  }
  auto store = std::make_unique<SqliteStore>(path, std::move(lock), std::move(db));
  PENSTOCK_TRY(store->Begin());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace penstock::dispatcher
