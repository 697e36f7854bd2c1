/* What libpng sees as `stderr` inside libtide.so.
 *
 * Debian's libpng16.a is compiled for executables, so its one reference to a variable of another library, stderr,
 * cannot be relocated in a shared library. libtide.so is linked with --wrap=stderr, which turns that reference into the
 * pointer below; being hidden it is local, and the relocation resolves. libpng reads it only in its default error
 * handler. Core itself never prints, so nothing else is affected; the runner is an executable and needs none of
 * this. */
#include <stdio.h>

extern FILE *__real_stderr;
__attribute__((visibility("hidden"))) FILE *__wrap_stderr;

__attribute__((constructor)) static void point_at_stderr(void) { __wrap_stderr = __real_stderr; }
