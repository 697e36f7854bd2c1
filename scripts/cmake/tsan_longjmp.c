/* The jump of Lua's errors, where ThreadSanitizer can see it.
 *
 * Debian compiles liblua5.4.a with fortification, so its longjmp is __longjmp_chk, which ThreadSanitizer does not know:
 * the frames that an error leaves would stay on the sanitizer's own stack, until it overflows. Linked into the runner
 * of the ThreadSanitizer build alone, this sends those jumps through the longjmp that it does know. */
#include <setjmp.h>

__attribute__((noreturn, visibility("default"))) void __longjmp_chk(jmp_buf env, int value);

__attribute__((noreturn)) void __longjmp_chk(jmp_buf env, int value) { longjmp(env, value); }
