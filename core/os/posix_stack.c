/* posix_stack.c: stacks and switching between them where the system is POSIX. */
#ifndef _WIN32
#  include "stack.h"

#  include <sys/mman.h>

#  ifndef MAP_NORESERVE
#    define MAP_NORESERVE 0
#  endif
#  ifndef MAP_ANONYMOUS
#    define MAP_ANONYMOUS MAP_ANON
#  endif

#  if defined(__x86_64__) && defined(__ELF__)
__asm__(".text\n.p2align 4\n.hidden tide__os_switch\n.globl tide__os_switch\n"
        ".type tide__os_switch,@function\ntide__os_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size tide__os_switch,.-tide__os_switch\n");
#  endif

bool tide__os_stacks_new(char **out, unsigned n, size_t bytes) {
  void *p = mmap(NULL, n * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  *out = p;
  for (unsigned i = 0; i < n; i++)
    if (mprotect(*out + i * bytes, 4096, PROT_NONE)) break; /* too many pieces: goes without */
  return true;
}

void tide__os_stacks_free(char *stacks, unsigned n, size_t bytes) { munmap(stacks, n * bytes); }
#endif
