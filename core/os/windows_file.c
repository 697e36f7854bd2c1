/* windows_file.c: files, folders and shared memory where the system is Windows.
 *
 * Files are opened so that they can be renamed and removed meanwhile, as elsewhere. Shared memory is a section of the
 * page file under a name made of its random key, which goes with its last handle; a handle's value fits in 32 bits. */
#ifdef _WIN32
#  include <windows.h>

#  include "file.h"

#  include <errno.h>
#  include <fcntl.h>
#  include <io.h>
#  include <stdlib.h>
#  include <string.h>

#  include "os.h"
#  include "process.h"
#  include "windows_file.h"

enum { ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

int tide__os_errno(void) {
  static const struct {
    DWORD windows;
    int number;
  } known[] = {{ERROR_FILE_NOT_FOUND, ENOENT},
               {ERROR_PATH_NOT_FOUND, ENOENT},
               {ERROR_INVALID_NAME, ENOENT},
               {ERROR_BAD_NETPATH, ENOENT},
               {ERROR_ACCESS_DENIED, EACCES},
               {ERROR_SHARING_VIOLATION, EACCES},
               {ERROR_USER_MAPPED_FILE, EBUSY},
               {ERROR_LOCK_VIOLATION, EACCES},
               {ERROR_FILE_EXISTS, EEXIST},
               {ERROR_ALREADY_EXISTS, EEXIST},
               {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
               {ERROR_OUTOFMEMORY, ENOMEM},
               {ERROR_COMMITMENT_LIMIT, ENOMEM},
               {ERROR_DISK_FULL, ENOSPC},
               {ERROR_HANDLE_DISK_FULL, ENOSPC},
               {ERROR_WRITE_PROTECT, EROFS},
               {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
               {ERROR_NOT_SAME_DEVICE, EXDEV},
               {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
               {ERROR_INVALID_HANDLE, EBADF},
               {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
               {ERROR_BAD_EXE_FORMAT, ENOEXEC},
               {ERROR_INVALID_PARAMETER, EINVAL},
               {ERROR_BROKEN_PIPE, EPIPE}};
  DWORD error = GetLastError();
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].windows == error) return errno = known[i].number;
  return errno = EIO;
}

size_t tide__os_slashes(char *path, size_t size, size_t length) {
  if (!length || length >= size) return 0;
  for (size_t i = 0; i < length; i++)
    if (path[i] == '\\') path[i] = '/';
  return length;
}

static HANDLE handle_of(int file) { return (HANDLE)_get_osfhandle(file); }

/* ---- files ---- */

int tide__os_open(const char *path, int how) {
  DWORD access = (how & TIDE_OS_READ ? GENERIC_READ : 0) | (how & TIDE_OS_WRITE ? GENERIC_WRITE : 0);
  DWORD make = how & TIDE_OS_EMPTY ? TRUNCATE_EXISTING : OPEN_EXISTING;
  if (how & TIDE_OS_MAKE) make = how & TIDE_OS_EMPTY ? CREATE_ALWAYS : OPEN_ALWAYS;
  if (how & TIDE_OS_NEW) make = CREATE_NEW;
  HANDLE handle = CreateFileA(path, access, ALL, NULL, make, FILE_ATTRIBUTE_NORMAL, NULL);
  if (handle == INVALID_HANDLE_VALUE) return tide__os_errno(), -1;
  int file = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT | (how & TIDE_OS_WRITE ? 0 : _O_RDONLY));
  if (file < 0) CloseHandle(handle);
  return file;
}

int tide__os_close(int file) { return _close(file) ? errno : 0; }

enum { MOST = 1 << 30 }; /* in one call */

bool tide__os_read(int file, void *to, size_t bytes) {
  for (char *p = to; bytes > 0;) {
    int got = _read(file, p, bytes < MOST ? (unsigned)bytes : MOST);
    if (got <= 0) return false;
    p += got, bytes -= (size_t)got;
  }
  return true;
}

bool tide__os_write(int file, const void *from, size_t bytes) {
  for (const char *p = from; bytes > 0;) {
    int wrote = _write(file, p, bytes < MOST ? (unsigned)bytes : MOST);
    if (wrote <= 0) return false;
    p += wrote, bytes -= (size_t)wrote;
  }
  return true;
}

int tide__os_copy(int to, int from, int64_t bytes) {
  char buffer[1 << 14];
  for (int64_t at = 0; at < bytes;) {
    DWORD n = 0, wrote = 0;
    OVERLAPPED source = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)}, target = source;
    if (!ReadFile(handle_of(from), buffer, sizeof buffer, &n, &source)) return tide__os_errno();
    if (n && !WriteFile(handle_of(to), buffer, n, &wrote, &target)) return tide__os_errno();
    if (!wrote) return EIO;
    at += wrote;
  }
  return 0;
}

int tide__os_resize(int file, int64_t bytes) { return _chsize_s(file, bytes); }

int tide__os_room(int file, int64_t bytes) {
  int64_t now = _filelengthi64(file);
  return now < 0 ? errno : now >= bytes ? 0 : _chsize_s(file, bytes);
}

int tide__os_sync(int file) { return FlushFileBuffers(handle_of(file)) ? 0 : tide__os_errno(); }

int tide__os_access(const char *path, int how) {
  tide__os_about about;
  if (_access(path, (how & TIDE_OS_READ ? 4 : 0) | (how & TIDE_OS_WRITE ? 2 : 0))) return errno;
  return how & TIDE_OS_RUN && (tide__os_look(&about, path) || about.kind != TIDE_OS_FILE) ? EACCES : 0;
}

int tide__os_rename(const char *from, const char *to) {
  return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : tide__os_errno();
}

/* The path of what is open, without the mark of its kind. */
static size_t final_path(char *out, size_t size, HANDLE handle) {
  char path[32768];
  DWORD n = GetFinalPathNameByHandleA(handle, path, sizeof path, FILE_NAME_NORMALIZED);
  if (!n || n >= sizeof path) return tide__os_errno(), 0;
  bool network = !strncmp(path, "\\\\?\\UNC\\", 8), marked = !strncmp(path, "\\\\?\\", 4);
  int length = snprintf(out, size, "%s%s", network ? "\\\\" : "", path + (network ? 8 : marked ? 4 : 0));
  return tide__os_slashes(out, size, length > 0 ? (size_t)length : 0);
}

static HANDLE open_to_look(const char *path) {
  return CreateFileA(path, 0, ALL, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
}

char *tide__os_real_path(const char *path) {
  char real[4 * MAX_PATH];
  HANDLE handle = open_to_look(path);
  if (handle == INVALID_HANDLE_VALUE) return tide__os_errno(), NULL;
  size_t n = final_path(real, sizeof real, handle);
  CloseHandle(handle);
  return n ? strdup(real) : NULL;
}

bool tide__os_is_link(const char *path) {
  DWORD is = GetFileAttributesA(path);
  return is != INVALID_FILE_ATTRIBUTES && is & FILE_ATTRIBUTE_REPARSE_POINT;
}

void tide__os_rights(int file, const char *of) { (void)file, (void)of; } /* a new file has those of its folder */
bool tide__os_name(char *out, size_t size, int file) { return final_path(out, size, handle_of(file)) > 0; }

FILE *tide__os_temporary(void) {
  static _Atomic unsigned count;
  char folder[MAX_PATH + 1], path[2 * MAX_PATH];
  DWORD n = GetTempPathA(sizeof folder, folder);
  if (!n || n > sizeof folder) return tide__os_errno(), NULL;
  snprintf(path, sizeof path, "%stide-%d-%u.tmp", folder, tide__os_self(), count++);
  HANDLE handle = CreateFileA(path, GENERIC_READ | GENERIC_WRITE | DELETE, ALL, NULL, CREATE_ALWAYS,
                              FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
  if (handle == INVALID_HANDLE_VALUE) return tide__os_errno(), NULL;
  int file = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT);
  FILE *stream = file < 0 ? NULL : _fdopen(file, "w+b");
  if (!stream && file >= 0) _close(file);
  if (file < 0) CloseHandle(handle);
  return stream;
}

static int look_at(tide__os_about *out, HANDLE handle) {
  const int64_t second = 10000000, until_1970 = 11644473600;
  BY_HANDLE_FILE_INFORMATION is;
  *out = (tide__os_about){.kind = TIDE_OS_OTHER};
  if (handle == INVALID_HANDLE_VALUE) return errno = EBADF;
  if (GetFileType(handle) != FILE_TYPE_DISK) return 0;
  if (!GetFileInformationByHandle(handle, &is)) return tide__os_errno();
  int64_t changed = (int64_t)is.ftLastWriteTime.dwHighDateTime << 32 | is.ftLastWriteTime.dwLowDateTime;
  out->kind = is.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY ? TIDE_OS_FOLDER : TIDE_OS_FILE;
  out->bytes = (int64_t)is.nFileSizeHigh << 32 | is.nFileSizeLow;
  out->seconds = changed / second - until_1970, out->nanoseconds = (long)(changed % second) * 100;
  return 0;
}

int tide__os_look(tide__os_about *out, const char *path) {
  HANDLE handle = open_to_look(path);
  if (handle == INVALID_HANDLE_VALUE) return tide__os_errno();
  int error = look_at(out, handle);
  CloseHandle(handle);
  return error;
}

int tide__os_look_at(tide__os_about *out, int file) { return look_at(out, handle_of(file)); }

/* There is no stream in memory: it is a temporary file until its end. */
bool tide__os_text_begin(tide__os_text *t) { return (t->stream = tide__os_temporary()) != NULL; }

bool tide__os_text_end(tide__os_text *t) {
  bool good = !fflush(t->stream) && !ferror(t->stream);
  int64_t n = good ? _ftelli64(t->stream) : -1;
  t->at = n >= 0 ? malloc((size_t)n + 1) : NULL;
  rewind(t->stream);
  good = t->at && fread(t->at, 1, (size_t)n, t->stream) == (size_t)n;
  fclose(t->stream);
  if (good) t->at[n] = 0, t->bytes = (size_t)n;
  return good;
}

/* ---- folders ---- */

int tide__os_folder(const char *path) { return CreateDirectoryA(path, NULL) ? 0 : tide__os_errno(); }
int tide__os_folder_remove(const char *path) { return RemoveDirectoryA(path) ? 0 : tide__os_errno(); }

int tide__os_folder_temporary(char *out, size_t size, const char *name) {
  static _Atomic unsigned count;
  char folder[MAX_PATH + 1];
  int error = EEXIST;
  DWORD n = GetTempPathA(sizeof folder, folder);
  if (!tide__os_slashes(folder, sizeof folder, n)) return tide__os_errno();
  for (int i = 0; i < 1000 && error == EEXIST; i++) {
    snprintf(out, size, "%s%s-%d-%u", folder, name, tide__os_self(), count++);
    error = tide__os_folder(out);
  }
  return error;
}

void tide__os_folder_list(const char *path, void (*each)(void *user, const char *name), void *user) {
  char pattern[2 * MAX_PATH];
  WIN32_FIND_DATAA found;
  if (snprintf(pattern, sizeof pattern, "%s/*", path) >= (int)sizeof pattern) return;
  HANDLE search = FindFirstFileA(pattern, &found);
  if (search == INVALID_HANDLE_VALUE) return;
  do { each(user, found.cFileName); } while (FindNextFileA(search, &found));
  FindClose(search);
}

/* ---- files as memory ---- */

static void *map(HANDLE file, size_t bytes, DWORD pages, DWORD access) {
  HANDLE section = CreateFileMappingA(file, NULL, pages, (DWORD)((uint64_t)bytes >> 32), (DWORD)bytes, NULL);
  void *at = section ? MapViewOfFile(section, access, 0, 0, bytes) : NULL;
  if (!at) tide__os_errno();
  if (section) CloseHandle(section);
  return at;
}

void *tide__os_map_file(int file, size_t bytes, bool shared) {
  return map(handle_of(file), bytes, shared ? PAGE_READWRITE : PAGE_WRITECOPY, shared ? FILE_MAP_WRITE : FILE_MAP_COPY);
}

void tide__os_unmap_file(void *at, size_t bytes) { UnmapViewOfFile(at); }

/* ---- shared memory ---- */

enum { NAME = 64 };
static void name_of(char *text, const tide__os_share *name) {
  snprintf(text, NAME, "Local\\tide-%016llx", (unsigned long long)name->key);
}

static HANDLE section_of(int file) { return (HANDLE)(intptr_t)file; }

bool tide__os_share_new(tide__os_share *out, size_t bytes) {
  char text[NAME];
  tide__os_share name = {.process = tide__os_self()};
  if (!tide__os_random(&name.key, sizeof name.key)) return false;
  name_of(text, &name);
  HANDLE section = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)((uint64_t)bytes >> 32),
                                      (DWORD)bytes, text);
  if (!section) return tide__os_errno(), false;
  name.file = (int32_t)(intptr_t)section;
  *out = name;
  return true;
}

int tide__os_share_open(const tide__os_share *name) {
  char text[NAME];
  name_of(text, name);
  HANDLE section = OpenFileMappingA(FILE_MAP_WRITE, FALSE, text);
  return section ? (int)(intptr_t)section : -1;
}

void tide__os_share_close(int file) { CloseHandle(section_of(file)); }

void *tide__os_share_map(int file, size_t bytes) {
  void *at = MapViewOfFile(section_of(file), FILE_MAP_WRITE, 0, 0, bytes);
  if (!at) tide__os_errno();
  return at;
}

void tide__os_share_unmap(void *at, size_t bytes) { tide__os_unmap_file(at, bytes); }

bool tide__os_share_pages(void *at, size_t bytes, int file) { return errno = ENOSYS, false; }

void tide__os_share_leave(void *at, size_t bytes) { (void)at, (void)bytes; }

int tide__os_duplicate(int file) { return errno = ENOSYS, -1; }
#endif
