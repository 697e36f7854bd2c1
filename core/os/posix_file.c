/* posix_file.c: files, folders and shared memory where the system is POSIX.
 *
 * Shared memory is a file without a name in any folder, found through the holder's list of open files under /proc. So
 * nothing is left behind when a process dies in any way. A number in that list may come to mean another
 * file; therefore each file carries a random key, which its opener compares. Where there is no such list, it is
 * an object of shm_open whose name is the key, which its maker takes away.
 *
 * Invariant: what tide__os_share_open returns is the file that the name was made for. */
#ifndef _WIN32
#  include "file.h"

#  include <dirent.h>
#  include <errno.h>
#  include <fcntl.h>
#  include <stdlib.h>
#  include <string.h>
#  include <sys/mman.h>
#  include <sys/stat.h>
#  include <unistd.h>

#  include "os.h"
#  include "process.h"

#  ifndef MAP_NORESERVE
#    define MAP_NORESERVE 0
#  endif

/* ---- files ---- */

int tide__os_open(const char *path, int how) {
  int flags = O_CLOEXEC | O_NOCTTY |
              (how & TIDE_OS_READ && how & TIDE_OS_WRITE ? O_RDWR
               : how & TIDE_OS_WRITE                     ? O_WRONLY
                                                         : O_RDONLY);
  if (how & (TIDE_OS_MAKE | TIDE_OS_NEW)) flags |= O_CREAT;
  if (how & TIDE_OS_NEW) flags |= O_EXCL;
  if (how & TIDE_OS_EMPTY) flags |= O_TRUNC;
  if (how & TIDE_OS_NOW) flags |= O_NONBLOCK;
  return open(path, flags, how & TIDE_OS_OWN ? 0600 : 0666);
}

int tide__os_close(int file) { return close(file) ? errno : 0; }

bool tide__os_read(int file, void *to, size_t bytes) {
  for (char *p = to; bytes > 0;) {
    ssize_t got = read(file, p, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got, bytes -= (size_t)got;
  }
  return true;
}

bool tide__os_write(int file, const void *from, size_t bytes) {
  for (const char *p = from; bytes > 0;) {
    ssize_t wrote = write(file, p, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    p += wrote, bytes -= (size_t)wrote;
  }
  return true;
}

int tide__os_copy(int to, int from, int64_t bytes) {
  char buffer[1 << 14];
  for (off_t at = 0; at < bytes;) {
    ssize_t n = pread(from, buffer, sizeof buffer, at), wrote = n > 0 ? pwrite(to, buffer, (size_t)n, at) : 0;
    if ((n < 0 || wrote < 0) && errno == EINTR) continue;
    if (n <= 0 || wrote <= 0) return n < 0 || wrote < 0 ? errno : EIO;
    at += wrote;
  }
  return 0;
}

int tide__os_resize(int file, int64_t bytes) { return ftruncate(file, (off_t)bytes) ? errno : 0; }

#  ifdef __APPLE__
int tide__os_room(int file, int64_t bytes) {
  struct stat is;
  if (fstat(file, &is)) return errno;
  if (is.st_size >= bytes) return 0;
  fstore_t more = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = bytes - is.st_size};
  if (fcntl(file, F_PREALLOCATE, &more) == -1 && errno != ENOTSUP) return errno;
  return tide__os_resize(file, bytes);
}
int tide__os_sync(int file) { return fsync(file) ? errno : 0; }
#  else
int tide__os_room(int file, int64_t bytes) { return posix_fallocate(file, 0, (off_t)bytes); }
int tide__os_sync(int file) { return fdatasync(file) ? errno : 0; }
#  endif

int tide__os_access(const char *path, int how) {
  int mode = (how & TIDE_OS_READ ? R_OK : 0) | (how & TIDE_OS_WRITE ? W_OK : 0) | (how & TIDE_OS_RUN ? X_OK : 0);
  return access(path, mode ? mode : F_OK) ? errno : 0;
}

int tide__os_rename(const char *from, const char *to) { return rename(from, to) ? errno : 0; }
char *tide__os_real_path(const char *path) { return realpath(path, NULL); }

bool tide__os_is_link(const char *path) {
  struct stat is;
  return lstat(path, &is) == 0 && S_ISLNK(is.st_mode);
}

void tide__os_rights(int file, const char *of) {
  struct stat old;
  if (stat(of, &old)) return;
  if ((old.st_uid != geteuid() || old.st_gid != getegid()) && fchown(file, old.st_uid, old.st_gid)) errno = 0;
  fchmod(file, old.st_mode & 07777);
}

bool tide__os_name(char *out, size_t size, int file) {
#  ifdef __linux__
  return (size_t)snprintf(out, size, "/proc/self/fd/%d", file) < size;
#  else
  return (size_t)snprintf(out, size, "/dev/fd/%d", file) < size;
#  endif
}

FILE *tide__os_temporary(void) { return tmpfile(); }

static void tell(tide__os_about *out, const struct stat *is) {
  out->kind = S_ISREG(is->st_mode) ? TIDE_OS_FILE : S_ISDIR(is->st_mode) ? TIDE_OS_FOLDER : TIDE_OS_OTHER;
  out->bytes = is->st_size;
#  ifdef __APPLE__
  out->seconds = is->st_mtimespec.tv_sec, out->nanoseconds = is->st_mtimespec.tv_nsec;
#  else
  out->seconds = is->st_mtim.tv_sec, out->nanoseconds = is->st_mtim.tv_nsec;
#  endif
}

int tide__os_look(tide__os_about *out, const char *path) {
  struct stat is;
  if (stat(path, &is)) return errno;
  return tell(out, &is), 0;
}

int tide__os_look_at(tide__os_about *out, int file) {
  struct stat is;
  if (fstat(file, &is)) return errno;
  return tell(out, &is), 0;
}

bool tide__os_text_begin(tide__os_text *t) { return (t->stream = open_memstream(&t->at, &t->bytes)) != NULL; }
bool tide__os_text_end(tide__os_text *t) { return fclose(t->stream) == 0; }

/* ---- folders ---- */

int tide__os_folder(const char *path) { return mkdir(path, 0700) ? errno : 0; }
int tide__os_folder_remove(const char *path) { return rmdir(path) ? errno : 0; }

int tide__os_folder_temporary(char *out, size_t size, const char *name) {
  const char *tmp = getenv("TMPDIR");
  snprintf(out, size, "%s/%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", name);
  return mkdtemp(out) ? 0 : errno;
}

void tide__os_folder_list(const char *path, void (*each)(void *user, const char *name), void *user) {
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));) each(user, e->d_name);
  if (d) closedir(d);
}

/* ---- files as memory ---- */

void *tide__os_map_file(int file, size_t bytes, bool shared) {
  int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  return at == MAP_FAILED ? NULL : at;
}

void tide__os_unmap_file(void *at, size_t bytes) { munmap(at, bytes); }

/* ---- shared memory ---- */

enum { NAME = 64 };

static void name_of(char *text, const tide__os_share *name) {
  const char *folder = "";
#  ifndef __linux__
  folder = "/";
#  endif
  snprintf(text, NAME, "%stide-%016llx", folder, (unsigned long long)name->key);
}

static int make_file(const char *name) {
#  ifdef __linux__
  return memfd_create(name, MFD_CLOEXEC);
#  else
  return shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
#  endif
}

bool tide__os_share_new(tide__os_share *out, size_t bytes) {
  char text[NAME];
  tide__os_share name = {.process = tide__os_self()};
  if (!tide__os_random(&name.key, sizeof name.key)) return false;
  name_of(text, &name);
  name.file = make_file(text);
  if (name.file < 0) return false;
  if (ftruncate(name.file, (off_t)bytes)) {
    close(name.file);
    return false;
  }
  *out = name;
  return true;
}

int tide__os_share_open(const tide__os_share *name) {
  char text[NAME];
  name_of(text, name);
#  ifdef __linux__
  char path[NAME], link[2 * NAME] = "";
  snprintf(path, sizeof path, "/proc/%d/fd/%d", name->process, name->file);
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length <= 0 || !strstr(link, text)) return -1;
  return open(path, O_RDWR | O_CLOEXEC);
#  else
  return shm_open(text, O_RDWR, 0);
#  endif
}

void tide__os_share_close(int file) { close(file); }
void *tide__os_share_map(int file, size_t bytes) { return tide__os_map_file(file, bytes, true); }
void tide__os_share_unmap(void *at, size_t bytes) { munmap(at, bytes); }

bool tide__os_share_pages(void *at, size_t bytes, int file) {
  return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
}

void tide__os_share_leave(void *at, size_t bytes) {
  mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

int tide__os_duplicate(int file) { return fcntl(file, F_DUPFD_CLOEXEC, 0); }
#endif
