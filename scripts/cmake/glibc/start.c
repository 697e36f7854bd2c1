/* start.c: a program's start with a glibc before 2.34.
 *
 * There a program's own code calls its constructors: what starts it, __libc_start_main, is handed a function for that.
 * A program that was built later hands it none, and its constructors would not run. */
typedef int start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(int, char **, char **),
                       void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
extern start_main old_libc_start_main;
__asm__(".symver old_libc_start_main,__libc_start_main@GLIBC_2.2.5");
typedef void constructor(int, char **, char **);
extern constructor *__preinit_array_start[], *__preinit_array_end[], *__init_array_start[], *__init_array_end[];
#pragma GCC visibility push(hidden)
extern void _init(void);
#pragma GCC visibility pop

static void call_constructors(int argc, char **argv, char **environment) {
  for (constructor **c = __preinit_array_start; c < __preinit_array_end; c++) (*c)(argc, argv, environment);
  _init();
  for (constructor **c = __init_array_start; c < __init_array_end; c++) (*c)(argc, argv, environment);
}

#pragma GCC visibility push(hidden)
start_main __wrap___libc_start_main;
#pragma GCC visibility pop

int __wrap___libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor *init,
                             void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
  return old_libc_start_main(main, argc, argv, init ? init : call_constructors, fini, rtld_fini, stack_end);
}
