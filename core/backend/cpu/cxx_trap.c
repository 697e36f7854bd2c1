/* cxx_trap.c: integers that a kernel from text divides by zero.
 *
 * On a GPU such a division gives some number and the kernel goes on. An x86 processor traps, which would end the
 * process, so a handler of SIGFPE makes the result 0 and goes on behind the instruction; it traps likewise where the
 * least number is divided by -1, which wraps round to itself with the remainder 0. Other processors do not trap.
 *
 * The handler is the process's: it is installed when the first such kernel is launched on the CPU, and minds threads
 * alone that are inside of one. All else goes to the handler that was there before; one that is installed later has the
 * last word. */
#include "cxx.h"

#if defined(__x86_64__) && defined(__linux__)

#  include <signal.h>
#  include <ucontext.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static _Thread_local bool inside;

/* How many bytes of an operand's address follow the byte that says where it is. */
static int address_bytes(const uint8_t *p, uint8_t mode) {
  int kind = mode >> 6, place = mode & 7;
  if (kind == 3) return 0;
  bool scaled = place == 4;
  if (scaled) place = p[0] & 7;
  return scaled + (kind == 1 ? 1 : kind == 2 || place == 5 ? 4 : 0);
}

/* The divisor where it is in a register; in memory it is taken for none of both. */
static uint64_t divisor(const greg_t *g, uint8_t mode, uint8_t rex) {
  static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return mode >> 6 == 3 ? (uint64_t)g[order[(mode & 7) | (rex & 1) << 3]] : 1;
}

/* div and idiv: prefixes, F6 or F7, the byte with /6 or /7 and the operand. The dividend is in rdx and rax (of 8 bits
 * in ax), where quotient and remainder go. False: it is no division. */
static bool step_over(greg_t *g) {
  const uint8_t *p = (const uint8_t *)g[REG_RIP];
  bool short_operand = false;
  while (*p == 0x66 || *p == 0x67 || *p == 0x2E || *p == 0x3E || *p == 0x64 || *p == 0x65 || *p == 0xF2 || *p == 0xF3)
    short_operand |= *p++ == 0x66;
  uint8_t rex = (*p & 0xF0) == 0x40 ? *p++ : 0, op = *p++, mode = *p++;
  int form = mode >> 3 & 7, bits = op == 0xF6 ? 8 : rex & 8 ? 64 : short_operand ? 16 : 32;
  if ((op != 0xF6 && op != 0xF7) || form < 6) return false;
  uint64_t mask = UINT64_MAX >> (64 - bits), least = (mask >> 1) + 1, low = (uint64_t)g[REG_RAX] & mask,
           high = (bits == 8 ? (uint64_t)g[REG_RAX] >> 8 : (uint64_t)g[REG_RDX]) & mask;
  bool wraps = form == 7 && low == least && high == mask && (divisor(g, mode, rex) & mask);
  uint64_t quotient = wraps ? least : 0, kept = bits > 16 ? 0 : ~(uint64_t)0xFFFF;
  g[REG_RAX] = (greg_t)(((uint64_t)g[REG_RAX] & kept) | quotient);
  if (bits > 8) g[REG_RDX] = (greg_t)((uint64_t)g[REG_RDX] & kept);
  g[REG_RIP] = (greg_t)(uintptr_t)(p + address_bytes(p, mode));
  return true;
}

static void on_trap(int sig, siginfo_t *info, void *context) {
  if (inside && info->si_code == FPE_INTDIV && step_over(((ucontext_t *)context)->uc_mcontext.gregs)) return;
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

void tide__cxx_inside(bool is_inside) {
  pthread_once(&once, install);
  inside = is_inside;
}

#else

void tide__cxx_inside(bool is_inside) { (void)is_inside; }

#endif
