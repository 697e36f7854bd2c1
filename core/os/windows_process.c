/* windows_process.c: other programs where the system is Windows.
 *
 * A task is a file that goes with its last handle. The program inherits that handle and its outputs, and nothing else
 * of ours; the environment says the handle's value. Programs with a task are in one job, which ends them with us.
 *
 * Invariant: a process that was started is in the list, and open, until its status was given. */
#ifdef _WIN32
#  include <windows.h>

#  include "process.h"

#  include <errno.h>
#  include <fcntl.h>
#  include <io.h>
#  include <pthread.h>
#  include <stdlib.h>
#  include <string.h>

#  include "file.h"
#  include "os.h"
#  include "windows_file.h"

static const char task_variable[] = "TIDE_TASK_HANDLE";

int32_t tide__os_self(void) { return (int32_t)GetCurrentProcessId(); }

void tide__os_default_variable(const char *name, const char *value) {
  if (!getenv(name)) _putenv_s(name, value);
}
void tide__os_sleep(double seconds) { Sleep((DWORD)(seconds * 1000 + 0.999)); }

bool tide__os_alive(int32_t process) {
  HANDLE handle = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)process);
  bool alive = handle ? WaitForSingleObject(handle, 0) == WAIT_TIMEOUT : GetLastError() == ERROR_ACCESS_DENIED;
  if (handle) CloseHandle(handle);
  return alive;
}

/* ---- finding ---- */

bool tide__os_program(char *out, size_t size, const char *folder, const char *name) {
  static const char *const ends[] = {"", ".exe"};
  char path[32768];
  if (!folder) return tide__os_slashes(out, size, SearchPathA(NULL, name, ".exe", (DWORD)size, out, NULL)) > 0;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    int n = snprintf(path, sizeof path, "%s/%s%s", folder, name, ends[i]);
    if (n < 0 || (size_t)n >= size || tide__os_access(path, TIDE_OS_RUN)) continue;
    memcpy(out, path, (size_t)n + 1);
    return true;
  }
  return false;
}

/* ---- tasks ---- */

FILE *tide__os_task_new(void) { return tide__os_temporary(); }

FILE *tide__os_task(void) {
  char text[32];
  DWORD n = GetEnvironmentVariableA(task_variable, text, sizeof text);
  if (!n || n >= sizeof text) return NULL;
  SetEnvironmentVariableA(task_variable, NULL); /* programs that this one starts have none */
  HANDLE handle = (HANDLE)(intptr_t)strtoll(text, NULL, 10);
  SetHandleInformation(handle, HANDLE_FLAG_INHERIT, 0);
  int file = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT);
  return file < 0 ? NULL : _fdopen(file, "r+b");
}

/* ---- starting ---- */

/* As the programs' own start takes a line apart: quotes around each, \ before a quote. */
static char *command_line(char *const *arguments) {
  size_t room = 1;
  for (char *const *a = arguments; *a; a++) room += 2 * strlen(*a) + 3;
  char *line = malloc(room), *p = line;
  for (char *const *a = arguments; line && *a; a++) {
    size_t slashes = 0;
    *p++ = '"';
    for (const char *c = *a; *c; c++) {
      if (*c == '"')
        for (size_t i = 0; i <= slashes; i++) *p++ = '\\';
      slashes = *c == '\\' ? slashes + 1 : 0;
      *p++ = *c;
    }
    while (slashes--) *p++ = '\\';
    *p++ = '"', *p++ = ' ';
  }
  if (line) *p = 0;
  return line;
}

/* Our environment and where the task is. */
static char *environment(HANDLE task) {
  char *ours = GetEnvironmentStringsA(), *end = ours;
  if (!ours) return NULL;
  while (*end) end += strlen(end) + 1;
  size_t n = (size_t)(end - ours);
  char *all = malloc(n + 64);
  if (all) {
    int length = snprintf(all, 64, "%s=%lld", task_variable, (long long)(intptr_t)task);
    memcpy(all + length + 1, ours, n + 1);
  }
  FreeEnvironmentStringsA(ours);
  return all;
}

static HANDLE inheritable(HANDLE of) {
  HANDLE out = NULL, self = GetCurrentProcess();
  if (!of || of == INVALID_HANDLE_VALUE) return NULL;
  return DuplicateHandle(self, of, self, &out, 0, TRUE, DUPLICATE_SAME_ACCESS) ? out : NULL;
}

static HANDLE open_for_child(const char *path, DWORD access, DWORD make) {
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
  HANDLE handle =
      CreateFileA(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, &inherited, make, 0, NULL);
  return handle == INVALID_HANDLE_VALUE ? NULL : handle;
}

/* What ends with this process. */
static HANDLE job(void) {
  static HANDLE job;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (!job && (job = CreateJobObjectA(NULL, NULL))) {
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
  }
  pthread_mutex_unlock(&lock);
  return job;
}

typedef struct started {
  struct started *next;
  DWORD process;
  HANDLE handle;
} started;
static started *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

static int enter(const PROCESS_INFORMATION *made) {
  started *s = malloc(sizeof *s);
  if (!s) return ENOMEM;
  pthread_mutex_lock(&lock);
  *s = (started){list, made->dwProcessId, made->hProcess};
  list = s;
  pthread_mutex_unlock(&lock);
  return 0;
}

enum { HANDLES = 4 };
static int create(PROCESS_INFORMATION *made, const char *program, char *line, char *variables, HANDLE *handle) {
  STARTUPINFOEXA start = {.StartupInfo = {.cb = sizeof start, .dwFlags = STARTF_USESTDHANDLES}};
  char room[256];
  HANDLE given[HANDLES];
  SIZE_T bytes = sizeof room, n = 0;
  start.StartupInfo.hStdInput = handle[0], start.StartupInfo.hStdOutput = handle[1];
  start.StartupInfo.hStdError = handle[2];
  for (int i = 0; i < HANDLES; i++)
    if (handle[i]) given[n++] = handle[i];
  start.lpAttributeList = (LPPROC_THREAD_ATTRIBUTE_LIST)(void *)room;
  if (!InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &bytes)) return tide__os_errno();
  UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, given, n * sizeof *given, NULL,
                            NULL);
  bool done = CreateProcessA(program, line, NULL, NULL, TRUE, EXTENDED_STARTUPINFO_PRESENT | CREATE_SUSPENDED,
                             variables, NULL, &start.StartupInfo, made);
  int error = done ? 0 : tide__os_errno();
  DeleteProcThreadAttributeList(start.lpAttributeList);
  return error;
}

int tide__os_start(pid_t *out, const char *program, char *const *arguments, FILE *task, const char *output) {
  PROCESS_INFORMATION made;
  HANDLE handle[HANDLES] = {open_for_child("NUL", GENERIC_READ, OPEN_EXISTING)};
  handle[1] =
      output ? open_for_child(output, GENERIC_WRITE, CREATE_ALWAYS) : inheritable(GetStdHandle(STD_OUTPUT_HANDLE));
  handle[2] = inheritable(output ? handle[1] : GetStdHandle(STD_ERROR_HANDLE));
  handle[3] = task ? inheritable((HANDLE)_get_osfhandle(_fileno(task))) : NULL;
  int error = output && !handle[1] ? tide__os_errno() : task && !handle[3] ? EBADF : 0;
  char *line = command_line(arguments), *variables = task ? environment(handle[3]) : NULL;
  if (!line || (task && !variables)) error = ENOMEM;
  if (!error) error = create(&made, program, line, variables, handle);
  if (!error) {
    error = enter(&made);
    if (error) TerminateProcess(made.hProcess, 1), CloseHandle(made.hProcess);
    if (!error && task) AssignProcessToJobObject(job(), made.hProcess);
    if (!error) *out = (pid_t)made.dwProcessId, ResumeThread(made.hThread);
    CloseHandle(made.hThread);
  }
  for (int i = 0; i < HANDLES; i++)
    if (handle[i]) CloseHandle(handle[i]);
  free(line), free(variables);
  return error;
}

/* ---- ending ---- */

/* A status holds what waitpid's does: the code of an exit in its second byte, or a signal in its first. */
enum { SIGNAL_FAULT = 11, SIGNAL_END = 15 };
static const DWORD ended_by_us = 0xC000013A; /* STATUS_CONTROL_C_EXIT */

static HANDLE open_process(pid_t process) {
  HANDLE found = NULL, out = NULL;
  pthread_mutex_lock(&lock);
  for (const started *s = list; s && !found; s = s->next)
    if (s->process == (DWORD)process) found = s->handle;
  if (found) DuplicateHandle(GetCurrentProcess(), found, GetCurrentProcess(), &out, 0, FALSE, DUPLICATE_SAME_ACCESS);
  pthread_mutex_unlock(&lock);
  return out;
}

static void leave(pid_t process) {
  pthread_mutex_lock(&lock);
  started **link = &list, *s;
  while (*link && (*link)->process != (DWORD)process) link = &(*link)->next;
  if ((s = *link)) {
    *link = s->next;
    CloseHandle(s->handle);
    free(s);
  }
  pthread_mutex_unlock(&lock);
}

int tide__os_start_leashed(pid_t *out, int *leash, const char *program, char *const *arguments, const char *output,
                           int seconds, int mebibytes) {
  *leash = 0;
  return tide__os_start(out, program, arguments, NULL, output);
}

void tide__os_leash_cut(int leash) { (void)leash; }

tide__os_end tide__os_ended(int *status, pid_t process, bool wait) {
  DWORD code = 0;
  HANDLE handle = open_process(process);
  if (!handle) return TIDE_OS_LOST;
  bool ended = WaitForSingleObject(handle, wait ? INFINITE : 0) == WAIT_OBJECT_0 && GetExitCodeProcess(handle, &code);
  CloseHandle(handle);
  if (!ended) return TIDE_OS_RUNS;
  leave(process);
  if (status) *status = code >= 0xC0000000 ? code == ended_by_us ? SIGNAL_END : SIGNAL_FAULT : (int)(code & 255) << 8;
  return TIDE_OS_ENDED;
}

void tide__os_stop(pid_t process, bool at_once) {
  (void)at_once; /* it cannot be asked */
  HANDLE handle = open_process(process);
  if (!handle) return;
  TerminateProcess(handle, ended_by_us);
  CloseHandle(handle);
}

int tide__os_exit_code(int status) { return status & 127 ? -1 : status >> 8 & 255; }

/* ---- code: a library keeps its file, which goes after it ---- */

void *tide__os_code(const void *bytes, size_t n) {
  static _Atomic unsigned count;
  char folder[MAX_PATH + 1], path[2 * MAX_PATH];
  DWORD length = GetTempPathA(sizeof folder, folder);
  if (!tide__os_slashes(folder, sizeof folder, length)) return tide__os_errno(), NULL;
  snprintf(path, sizeof path, "%stide-kernel-%d-%u.dll", folder, tide__os_self(), count++);
  int file = tide__os_open(path, TIDE_OS_WRITE | TIDE_OS_MAKE | TIDE_OS_EMPTY | TIDE_OS_OWN);
  if (file < 0) return NULL;
  bool good = tide__os_write(file, bytes, n);
  int error = good ? 0 : errno;
  tide__os_close(file);
  void *library = good ? tide__os_library(path, true) : NULL;
  DWORD why = GetLastError();
  if (!library) remove(path);
  SetLastError(why);
  errno = error;
  return library;
}

void tide__os_code_close(void *library) {
  char path[MAX_PATH];
  DWORD n = GetModuleFileNameA(library, path, sizeof path);
  tide__os_library_close(library);
  if (n && n < sizeof path) remove(path);
}
#endif
