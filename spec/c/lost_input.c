/* lost_input.c: is loaded before a program (LD_PRELOAD) and lets its terminal hear a Ctrl-C where it hurts most: behind
 * every fourth ppoll that has found a byte, and before that byte is read. The terminal then drops what was typed. */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { EVERY = 4, MOST = 6 };
typedef int waiting_call(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask) {
  static int calls, dropped;
  waiting_call *real;
  void *found = dlsym(RTLD_NEXT, "ppoll");
  memcpy(&real, &found, sizeof found);
  int ready = real(fds, n, time, mask);
  if (ready != 1 || fds->fd != STDIN_FILENO || ++calls % EVERY || dropped == MOST) return ready;
  dropped++;
  tcflush(STDIN_FILENO, TCIFLUSH);
  kill(getpid(), SIGINT);
  return ready;
}
