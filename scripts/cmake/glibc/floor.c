/* floor.c: binaries built with a new glibc that run with 2.28 and later.
 *
 * A linker binds each function to its newest version, which an older glibc does not have. Linked with this file and
 * --wrap, each call of such a function (libpng's, zlib's and Lua's own too) goes to the version that has been there
 * from the start; CMake reads the names off the lines below. scripts/checks/tarball.sh fails on what is missing here.
 *
 * Invariant: no function changes what it does. Those of threads and libraries are the same code under both versions,
 * and those of numbers differ in how they report errors, which nobody here asks about. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* A section each, so that the linker drops what nobody calls. */
#define OLD(name, version)                                                                                             \
  __asm__(".section .text.__wrap_" #name ",\"ax\",@progbits\n"                                                         \
          ".globl __wrap_" #name "\n"                                                                                  \
          ".hidden __wrap_" #name "\n"                                                                                 \
          ".type __wrap_" #name ",@function\n"                                                                         \
          ".symver old_" #name "," #name "@GLIBC_" #version "\n"                                                       \
          "__wrap_" #name ": jmp *old_" #name "@GOTPCREL(%rip)\n"                                                      \
          ".size __wrap_" #name ",.-__wrap_" #name "\n"                                                                \
          ".text\n");

OLD(exp, 2.2.5)
OLD(exp2, 2.2.5)
OLD(hypot, 2.2.5)
OLD(hypotf, 2.2.5)
OLD(log, 2.2.5)
OLD(log2, 2.2.5)
OLD(pow, 2.2.5)
OLD(dladdr, 2.2.5)
OLD(dlclose, 2.2.5)
OLD(dlerror, 2.2.5)
OLD(dlmopen, 2.3.4)
OLD(dlopen, 2.2.5)
OLD(dlsym, 2.2.5)
OLD(dlvsym, 2.2.5)
OLD(pthread_attr_getstack, 2.2.5)
OLD(pthread_condattr_setclock, 2.3.3)
OLD(pthread_condattr_setpshared, 2.2.5)
OLD(pthread_create, 2.2.5)
OLD(pthread_detach, 2.2.5)
OLD(pthread_getattr_np, 2.2.5)
OLD(pthread_getcpuclockid, 2.2.5)
OLD(pthread_getspecific, 2.2.5)
OLD(pthread_join, 2.2.5)
OLD(pthread_key_create, 2.2.5)
OLD(pthread_key_delete, 2.2.5)
OLD(pthread_kill, 2.2.5)
OLD(pthread_mutex_trylock, 2.2.5)
OLD(pthread_mutexattr_destroy, 2.2.5)
OLD(pthread_mutexattr_init, 2.2.5)
OLD(pthread_mutexattr_setpshared, 2.2.5)
OLD(pthread_mutexattr_settype, 2.2.5)
OLD(pthread_once, 2.2.5)
OLD(pthread_rwlock_destroy, 2.2.5)
OLD(pthread_rwlock_init, 2.2.5)
OLD(pthread_rwlock_rdlock, 2.2.5)
OLD(pthread_rwlock_timedrdlock, 2.2.5)
OLD(pthread_rwlock_timedwrlock, 2.2.5)
OLD(pthread_rwlock_tryrdlock, 2.2.5)
OLD(pthread_rwlock_trywrlock, 2.2.5)
OLD(pthread_rwlock_unlock, 2.2.5)
OLD(pthread_rwlock_wrlock, 2.2.5)
OLD(pthread_rwlockattr_destroy, 2.2.5)
OLD(pthread_rwlockattr_init, 2.2.5)
OLD(pthread_rwlockattr_setpshared, 2.2.5)
OLD(pthread_setspecific, 2.2.5)
OLD(pthread_sigmask, 2.2.5)
OLD(pthread_spin_destroy, 2.2.5)
OLD(pthread_spin_init, 2.2.5)
OLD(pthread_spin_lock, 2.2.5)
OLD(pthread_spin_trylock, 2.2.5)
OLD(pthread_spin_unlock, 2.2.5)
OLD(__pthread_key_create, 2.2.5)
OLD(sem_destroy, 2.2.5)
OLD(sem_init, 2.2.5)
OLD(sem_post, 2.2.5)
OLD(sem_timedwait, 2.2.5)
OLD(sem_trywait, 2.2.5)
OLD(sem_wait, 2.2.5)
OLD(shm_open, 2.2.5)
OLD(shm_unlink, 2.2.5)

#define NEW(result, name, ...)                                                                                         \
  result __wrap_##name(__VA_ARGS__);                                                                                   \
  __attribute__((visibility("hidden"))) result __wrap_##name(__VA_ARGS__)

/* Before 2.33 these are inline, and call functions that are told the layout of struct stat. */
int __xstat(int layout, const char *path, struct stat *out);
int __lxstat(int layout, const char *path, struct stat *out);
int __fxstat(int layout, int file, struct stat *out);
NEW(int, stat, const char *path, struct stat *out) { return __xstat(1, path, out); }
NEW(int, lstat, const char *path, struct stat *out) { return __lxstat(1, path, out); }
NEW(int, fstat, int file, struct stat *out) { return __fxstat(1, file, out); }
NEW(int, fstat64, int file, struct stat *out) { return __fxstat(1, file, out); } /* the same struct on x86-64 */

/* Of 2.30. Both clocks advance together but for what sets the time of day: where it is set forward this wakes early, as
 * it may; where it is set back, late by as much. */
NEW(int, pthread_cond_clockwait, pthread_cond_t *cond, pthread_mutex_t *lock, clockid_t clock,
    const struct timespec *end) {
  static int (*newer)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
  struct timespec here, day;
  if (!newer) *(void **)&newer = dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  if (newer) return newer(cond, lock, clock, end);
  clock_gettime(clock, &here);
  clock_gettime(CLOCK_REALTIME, &day);
  int64_t ns =
      (int64_t)(end->tv_sec - here.tv_sec + day.tv_sec) * 1000000000 + end->tv_nsec - here.tv_nsec + day.tv_nsec;
  day = (struct timespec){ns / 1000000000, ns % 1000000000};
  return pthread_cond_timedwait(cond, lock, &day);
}

/* Of 2.34. What another thread opens meanwhile is inherited, if it does not ask for O_CLOEXEC. */
NEW(int, posix_spawn_file_actions_addclosefrom_np, posix_spawn_file_actions_t *actions, int from) {
  int (*newer)(posix_spawn_file_actions_t *, int);
  *(void **)&newer = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");
  if (newer) return newer(actions, from);
  int error = 0;
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return errno;
  for (struct dirent *entry; !error && (entry = readdir(folder));) {
    int file = atoi(entry->d_name);
    if (file >= from) error = posix_spawn_file_actions_addclose(actions, file);
  }
  closedir(folder);
  return error;
}

/* {==== What the C++ library and libgcc inside libtide_cuda.so ask for */

/* Of 2.36. */
NEW(unsigned, arc4random, void) {
  unsigned number;
  while (getrandom(&number, sizeof number, 0) != sizeof number) sched_yield();
  return number;
}

/* Of 2.32: whether atomic counts may be plain ones. They stay atomic. */
__attribute__((visibility("hidden"))) char __wrap___libc_single_threaded;

#if __GLIBC_PREREQ(2, 35)
/* Of 2.35: the tables for unwinding of the library that holds an address. */
typedef struct search {
  uintptr_t address;
  struct dl_find_object *out;
} search;

static int search_library(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  search *s = context;
  uintptr_t start = UINTPTR_MAX, end = 0, tables = 0;
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
    if (p->p_type == PT_GNU_EH_FRAME) tables = from;
    if (p->p_type != PT_LOAD) continue;
    holds |= s->address >= from && s->address < to;
    if (from < start) start = from;
    if (to > end) end = to;
  }
  if (!holds || !tables) return 0;
  *s->out = (struct dl_find_object){
      .dlfo_map_start = (void *)start, .dlfo_map_end = (void *)end, .dlfo_eh_frame = (void *)tables};
  return 1;
}

NEW(int, _dl_find_object, void *address, struct dl_find_object *out) {
  search s = {(uintptr_t)address, out};
  return dl_iterate_phdr(search_library, &s) == 1 ? 0 : -1;
}
#endif
