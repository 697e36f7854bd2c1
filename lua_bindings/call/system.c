/* system.c: what the bindings themselves ask of the operating system. What core asks is its own matter (core/os). */
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <time.h>

#ifdef _WIN32
static bool local_time(struct tm *out, time_t seconds) { return localtime_s(out, &seconds) == 0; }
#else
static bool local_time(struct tm *out, time_t seconds) { return localtime_r(&seconds, out) != NULL; }
#endif

int64_t ltide_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

void ltide_clock_text(char *text, size_t size) {
  struct timespec now = {0};
  struct tm t = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  local_time(&t, now.tv_sec);
  snprintf(text, size, "%02d:%02d:%02d.%03d", t.tm_hour, t.tm_min, t.tm_sec, (int)(now.tv_nsec / 1000000));
}

#ifndef _WIN32

#  include <dlfcn.h>
#  include <signal.h>
#  include <sys/ioctl.h>
#  include <sys/resource.h>
#  include <sys/stat.h>
#  include <sys/wait.h>
#  include <unistd.h>

int ltide_columns(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

const char *ltide_place_of_errors(int *columns) {
  struct winsize size;
  struct stat s;
  const char *term = getenv("TERM");
  *columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  if (isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0) return "terminal";
  return fstat(STDERR_FILENO, &s) == 0 && S_ISREG(s.st_mode) ? "log" : "pipe";
}

void ltide_processor_seconds(double *user, double *kernel) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  *user = (double)r.ru_utime.tv_sec + 1e-6 * (double)r.ru_utime.tv_usec;
  *kernel = (double)r.ru_stime.tv_sec + 1e-6 * (double)r.ru_stime.tv_usec;
}

bool ltide_same_library(const void *a, const void *b) {
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) && dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

bool ltide_folder_of(char *path, size_t size, const void *code) {
  Dl_info of;
  char *file = dladdr(code, &of) && of.dli_fname
                   ? realpath(strchr(of.dli_fname, '/') ? of.dli_fname : "/proc/self/exe", NULL)
                   : NULL;
  char *slash = file ? strrchr(file, '/') : NULL;
  if (slash) *slash = 0;
  bool fits = slash && strlen(file) < size;
  if (fits) memcpy(path, file, strlen(file) + 1);
  free(file);
  return fits;
}

static volatile sig_atomic_t code_at_alarm;
static void end_now(int unused) { (void)unused, _exit(code_at_alarm); }

void ltide_end_within(int seconds, int code) {
  code_at_alarm = code;
  signal(SIGALRM, end_now);
  alarm((unsigned)seconds);
}

void *ltide_library_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }
void *ltide_library_symbol(void *library, const char *name) { return dlsym(library, name); }
const char *ltide_library_problem(void) { return dlerror(); }

bool ltide_program_path(char *path, size_t size) {
  ssize_t n = readlink("/proc/self/exe", path, size - 1);
  if (n < 0) return false;
  path[n] = 0;
  return true;
}

FILE *ltide_open_new(const char *path) { return fopen(path, "wbx"); }
void ltide_make_folder(const char *path) { (void)!mkdir(path, 0777); }

bool ltide_set_variable(const char *name, const char *value) { return setenv(name, value, true) == 0; }

FILE *ltide_bytes_writer(char **bytes, size_t *size) { return open_memstream(bytes, size); }

bool ltide_bytes_take(FILE *writer, char **bytes, size_t *size) {
  (void)writer, (void)bytes, (void)size; /* there since it was flushed */
  return true;
}

FILE *ltide_bytes_reader(const char *bytes, size_t size) {
  return size ? fmemopen((void *)(size_t)bytes, size, "rb") : fopen("/dev/null", "rb");
}

FILE *ltide_open_plain(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode) ? fopen(path, "rb") : NULL;
}

int ltide_cannot_use(const char *path, bool run) { return access(path, run ? X_OK : R_OK) ? errno : 0; }
int ltide_signal_of(int status) { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }
int ltide_exit_code_of(int status) { return WEXITSTATUS(status); }
const char *ltide_signal_name(int number) { return strsignal(number); }
bool ltide_is_parent(long process) { return getppid() == process; }

#else

#  include <windows.h>

#  include <direct.h>
#  include <fcntl.h>
#  include <io.h>
#  include <sys/stat.h>

const char *ltide_place_of_errors(int *columns) { return *columns = 0, "pipe"; }

int ltide_columns(void) {
  CONSOLE_SCREEN_BUFFER_INFO info;
  bool known = GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &info);
  return known ? info.srWindow.Right - info.srWindow.Left + 1 : 0;
}

static double seconds_of(FILETIME t) {
  return 1e-7 * (double)((unsigned long long)t.dwHighDateTime << 32 | t.dwLowDateTime);
}

void ltide_processor_seconds(double *user, double *kernel) {
  FILETIME begun, ended, in_kernel = {0}, in_user = {0};
  GetProcessTimes(GetCurrentProcess(), &begun, &ended, &in_kernel, &in_user);
  *user = seconds_of(in_user), *kernel = seconds_of(in_kernel);
}

static HMODULE library_of(const void *code) {
  HMODULE module = NULL;
  const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  return GetModuleHandleExA(how, code, &module) ? module : NULL;
}

bool ltide_same_library(const void *a, const void *b) {
  HMODULE of_a = library_of(a);
  return of_a && of_a == library_of(b);
}

/* libtide_distributed is not built for Windows. */
bool ltide_folder_of(char *path, size_t size, const void *code) {
  (void)path, (void)size, (void)code;
  return false;
}
void ltide_end_within(int seconds, int code) { (void)seconds, (void)code; }
void *ltide_library_open(const char *path) { return (void)path, NULL; }
void *ltide_library_symbol(void *library, const char *name) { return (void)library, (void)name, NULL; }
const char *ltide_library_problem(void) { return "there is none for Windows"; }

bool ltide_program_path(char *path, size_t size) {
  DWORD n = GetModuleFileNameA(NULL, path, (DWORD)size);
  for (char *p = path; n && (p = strchr(p, '\\'));) *p = '/';
  return n > 0 && n < size;
}

FILE *ltide_open_new(const char *path) {
  int file = _open(path, _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY, _S_IREAD | _S_IWRITE);
  return file < 0 ? NULL : _fdopen(file, "wb");
}

void ltide_make_folder(const char *path) { _mkdir(path); }

bool ltide_set_variable(const char *name, const char *value) { return _putenv_s(name, value) == 0; }

/* There are no streams in memory: a temporary file stands in for it. */
FILE *ltide_bytes_writer(char **bytes, size_t *size) {
  *bytes = NULL, *size = 0;
  return tmpfile();
}

bool ltide_bytes_take(FILE *writer, char **bytes, size_t *size) {
  long long n = _ftelli64(writer);
  if (n < 0 || !(*bytes = malloc((size_t)n + 1))) return false;
  rewind(writer);
  *size = fread(*bytes, 1, (size_t)n, writer);
  return *size == (size_t)n;
}

FILE *ltide_bytes_reader(const char *bytes, size_t size) {
  FILE *file = tmpfile();
  if (file && fwrite(bytes, 1, size, file) == size) return rewind(file), file;
  if (file) fclose(file);
  return NULL;
}

FILE *ltide_open_plain(const char *path) {
  struct _stat64 s;
  return _stat64(path, &s) == 0 && (s.st_mode & _S_IFREG) ? fopen(path, "rb") : NULL;
}

int ltide_cannot_use(const char *path, bool run) { return _access(path, run ? 0 : 4) ? errno : 0; }
int ltide_signal_of(int status) { return status & 127; }
int ltide_exit_code_of(int status) { return status >> 8 & 255; }
const char *ltide_signal_name(int number) { return number == 11 ? "a fault" : "stopped"; }

/* The job that the parent put it into ends with it. */
bool ltide_is_parent(long process) { return process != 0; }

#endif
