/* windows.c: the operating system where it is Windows.
 *
 * A reservation is released whole, so an aligned one is tried for where a larger one was: somebody else may take that
 * place in between, and then it is tried again. */
#ifdef _WIN32
#  include <windows.h>

#  include <stdio.h>
#  include <string.h>

#  include <bcrypt.h>

#  include "os.h"

/* ---- time ---- */

void tide__os_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *then) {
  struct timespec now, at;
  clock_gettime(CLOCK_MONOTONIC, &now);
  clock_gettime(CLOCK_REALTIME, &at);
  int64_t ns = (then->tv_sec - now.tv_sec) * (int64_t)1000000000 + then->tv_nsec - now.tv_nsec + at.tv_nsec;
  if (ns < 0) ns = 0;
  at.tv_sec += ns / 1000000000, at.tv_nsec = (long)(ns % 1000000000);
  pthread_cond_timedwait(condition, mutex, &at);
}

/* ---- the machine ---- */

int tide__os_processors(bool usable) {
  DWORD_PTR own = 0, all = 0;
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  if (usable && GetProcessAffinityMask(GetCurrentProcess(), &own, &all) && own) return __builtin_popcountll(own);
  return info.dwNumberOfProcessors ? (int)info.dwNumberOfProcessors : 1;
}

bool tide__os_may_use(int processor) { return processor < tide__os_processors(true); }

void tide__os_memory(size_t *unused, size_t *total) {
  MEMORYSTATUSEX status = {.dwLength = sizeof status};
  bool known = GlobalMemoryStatusEx(&status);
  *unused = known ? (size_t)status.ullAvailPhys : 0;
  *total = known ? (size_t)status.ullTotalPhys : 0;
}

int64_t tide__os_cache(int level) {
  SYSTEM_LOGICAL_PROCESSOR_INFORMATION list[256];
  DWORD bytes = sizeof list;
  if (!GetLogicalProcessorInformation(list, &bytes)) return 0;
  for (size_t i = 0; i < bytes / sizeof *list; i++)
    if (list[i].Relationship == RelationCache && list[i].Cache.Level == level) return list[i].Cache.Size;
  return 0;
}

bool tide__os_random(void *out, size_t bytes) {
  return BCryptGenRandom(NULL, out, (ULONG)bytes, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0;
}

/* ---- pages ---- */

void tide__os_huge(void *at, size_t bytes) { (void)at, (void)bytes; } /* they need a right that few programs have */

static void *reserve_at(size_t bytes, size_t align, DWORD how, DWORD access) {
  enum { TRIES = 16 };
  if (align <= 65536) return VirtualAlloc(NULL, bytes, how, access); /* all are multiples of 64 KiB */
  for (int i = 0; i < TRIES; i++) {
    char *wide = VirtualAlloc(NULL, bytes + align, MEM_RESERVE, PAGE_NOACCESS);
    if (!wide) return NULL;
    char *at = wide + (align - (uintptr_t)wide % align) % align;
    VirtualFree(wide, 0, MEM_RELEASE);
    void *got = VirtualAlloc(at, bytes, how, access);
    if (got) return got;
  }
  return NULL;
}

void *tide__os_map(size_t bytes, size_t align) {
  return reserve_at(bytes, align, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}
void *tide__os_reserve(size_t bytes) { return VirtualAlloc(NULL, bytes, MEM_RESERVE, PAGE_NOACCESS); }
bool tide__os_back(void *at, size_t bytes) { return VirtualAlloc(at, bytes, MEM_COMMIT, PAGE_READWRITE) != NULL; }
void tide__os_unback(void *at, size_t bytes) { VirtualFree(at, bytes, MEM_DECOMMIT); }

void tide__os_unmap(void *at, size_t bytes) { VirtualFree(at, 0, MEM_RELEASE); }

/* ---- processors ---- */

bool tide__os_barrier_prepare(void) { return true; }
void tide__os_barrier(void) { FlushProcessWriteBuffers(); }

/* ---- code ---- */

void *tide__os_library(const char *path, bool now) {
  (void)now; /* always */
  return LoadLibraryA(path);
}

void *tide__os_library_loaded(const char *name) {
  HMODULE library = NULL;
  return GetModuleHandleExA(0, name, &library) ? library : NULL;
}

void *tide__os_symbol(void *library, const char *name) {
  FARPROC found = GetProcAddress(library, name);
  void *out;
  memcpy(&out, &found, sizeof out);
  return out;
}

void tide__os_library_close(void *library) { FreeLibrary(library); }

const char *tide__os_library_problem(void) {
  static _Thread_local char text[256];
  DWORD error = GetLastError();
  DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, error, 0, text,
                           sizeof text, NULL);
  while (n && (text[n - 1] == '\n' || text[n - 1] == '\r')) text[--n] = 0;
  if (!n) snprintf(text, sizeof text, "error %lu of Windows", (unsigned long)error);
  return text;
}

bool tide__os_file_of(char *out, size_t size, const void *code) {
  HMODULE module = NULL;
  const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (code && !GetModuleHandleExA(how, code, &module)) return false;
  DWORD n = GetModuleFileNameA(module, out, (DWORD)size);
  for (DWORD i = 0; i < n && n < size; i++)
    if (out[i] == '\\') out[i] = '/';
  return n > 0 && n < size;
}
#endif
