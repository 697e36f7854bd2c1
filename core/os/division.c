/* division.c: integers that a kernel from text divides by zero.
 *
 * On a GPU such a division gives some number and the kernel goes on. An x86 processor traps, which would end the
 * process, so a handler of the trap makes the result 0 and goes on behind the instruction; it also traps where the
 * least number is divided by -1, which wraps round to itself with the remainder 0. Other processors do not trap.
 *
 * The handler is the process's: it is installed when the first such kernel is launched on the CPU, and minds threads
 * alone that are inside of one. All else goes to the handler that was there before; one that is installed later has the
 * last word. */
#include "os.h"

#if defined(__x86_64__) && (defined(__linux__) || defined(_WIN32))

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool inside;

/* Of a thread that has trapped: in the order of the instructions' numbers, and where it goes on. */
typedef struct registers {
  uint64_t *at[16], *next;
} registers;

/* How many bytes of an operand's address follow the byte that says where it is. */
static int address_bytes(const uint8_t *p, uint8_t mode) {
  int kind = mode >> 6, place = mode & 7;
  if (kind == 3) return 0;
  bool scaled = place == 4;
  if (scaled) place = p[0] & 7;
  return scaled + (kind == 1 ? 1 : kind == 2 || place == 5 ? 4 : 0);
}

/* The divisor where it is in a register; in memory it is taken for none of both. */
static uint64_t divisor(const registers *r, uint8_t mode, uint8_t rex) {
  return mode >> 6 == 3 ? *r->at[(mode & 7) | (rex & 1) << 3] : 1;
}

/* div and idiv: prefixes, F6 or F7, the byte with /6 or /7 and the operand. The dividend is in rdx and rax (of 8 bits
 * in ax), where quotient and remainder go. False: it is no division. */
static bool step_over(const registers *r) {
  uint64_t *rax = r->at[0], *rdx = r->at[2];
  const uint8_t *p = (const uint8_t *)(uintptr_t)*r->next;
  bool short_operand = false;
  while (*p == 0x66 || *p == 0x67 || *p == 0x2E || *p == 0x3E || *p == 0x64 || *p == 0x65 || *p == 0xF2 || *p == 0xF3)
    short_operand |= *p++ == 0x66;
  uint8_t rex = (*p & 0xF0) == 0x40 ? *p++ : 0, op = *p++, mode = *p++;
  int form = mode >> 3 & 7, bits = op == 0xF6 ? 8 : rex & 8 ? 64 : short_operand ? 16 : 32;
  if ((op != 0xF6 && op != 0xF7) || form < 6) return false;
  uint64_t mask = UINT64_MAX >> (64 - bits), least = (mask >> 1) + 1, low = *rax & mask,
           high = (bits == 8 ? *rax >> 8 : *rdx) & mask;
  bool wraps = form == 7 && low == least && high == mask && (divisor(r, mode, rex) & mask);
  uint64_t quotient = wraps ? least : 0, kept = bits > 16 ? 0 : ~(uint64_t)0xFFFF;
  *rax = (*rax & kept) | quotient;
  if (bits > 8) *rdx &= kept;
  *r->next = (uintptr_t)(p + address_bytes(p, mode));
  return true;
}

#  ifdef __linux__
#    include <signal.h>
#    include <ucontext.h>

static struct sigaction before;

static void on_trap(int sig, siginfo_t *info, void *context) {
  if (inside && info->si_code == FPE_INTDIV) {
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    registers r = {.next = (uint64_t *)&g[REG_RIP]};
    for (int i = 0; i < 16; i++) r.at[i] = (uint64_t *)&g[order[i]];
    if (step_over(&r)) return;
  }
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(sig, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(sig);
  } else {
    sigaction(sig, &before, NULL);
    if (info->si_code <= 0) raise(sig); /* sent, not met: nothing traps again */
  }
}

static void install(void) {
  struct sigaction ours = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
  sigemptyset(&ours.sa_mask);
  sigaction(SIGFPE, &ours, &before);
}

#  else
#    include <windows.h>

static LONG CALLBACK on_trap(EXCEPTION_POINTERS *trap) {
  DWORD code = trap->ExceptionRecord->ExceptionCode;
  if (!inside || (code != EXCEPTION_INT_DIVIDE_BY_ZERO && code != EXCEPTION_INT_OVERFLOW))
    return EXCEPTION_CONTINUE_SEARCH;
  CONTEXT *c = trap->ContextRecord;
  DWORD64 *order[16] = {&c->Rax, &c->Rcx, &c->Rdx, &c->Rbx, &c->Rsp, &c->Rbp, &c->Rsi, &c->Rdi,
                        &c->R8,  &c->R9,  &c->R10, &c->R11, &c->R12, &c->R13, &c->R14, &c->R15};
  registers r = {.next = (uint64_t *)&c->Rip};
  for (int i = 0; i < 16; i++) r.at[i] = (uint64_t *)order[i];
  return step_over(&r) ? EXCEPTION_CONTINUE_EXECUTION : EXCEPTION_CONTINUE_SEARCH;
}

static void install(void) { AddVectoredExceptionHandler(true, on_trap); }
#  endif

void tide__os_divides(bool is_inside) {
  pthread_once(&once, install);
  inside = is_inside;
}

#else

void tide__os_divides(bool is_inside) { (void)is_inside; }

#endif
