/* terminal.c: runs a program in a terminal of its own and plays a script to it, for specs of the prompt.
 *
 *   terminal SCRIPT PROGRAM [ARGS...]
 *
 * A line of SCRIPT is "expect TEXT" (wait until the program has written it, behind what was expected before), "send
 * TEXT" (type it), "interrupt N" (send SIGINT N times, as fast as it goes), "stop TEXT" (type Ctrl-C every 200 ms, five
 * times at most, until TEXT comes) or "settle N" (wait until it has read all that was typed and waits for more, as seen
 * N times, 5 ms apart). TEXT knows \n, \r, \t, \e, \xHH and \\. What the program writes goes to the standard output.
 * The exit code is the program's; 98: it was killed by a signal, 99: a text did not come within 20 s, and the program
 * was ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 1 << 16, LIMIT_MS = 60000 };

static int master;
static pid_t child;
static char *output;
static size_t written, room, seen; /* seen: behind what was expected last */

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Takes what the program has written; false once it is gone. */
static int take_output(void) {
  if (room - written < 65536) {
    room = 2 * room + 65536;
    output = realloc(output, room + 1);
    if (!output) exit(97);
  }
  ssize_t n = read(master, output + written, 65536);
  if (n <= 0) return n < 0 && errno == EINTR;
  fwrite(output + written, 1, (size_t)n, stdout);
  written += (size_t)n;
  output[written] = 0;
  return 1;
}

static void send_text(const char *text, size_t size);

/* Types Ctrl-C meanwhile, `presses` times. */
static void expect(const char *text, size_t size, int presses) {
  long begin = now_ms(), end = begin + LIMIT_MS;
  for (int pressed = 0;;) {
    char *found = output ? memmem(output + seen, written - seen, text, size) : NULL;
    if (found) {
      seen = (size_t)(found - output) + size;
      return;
    }
    struct pollfd in = {.fd = master, .events = POLLIN};
    if (now_ms() >= end || (poll(&in, 1, 20) == 1 && !take_output())) break;
    if (pressed < presses && now_ms() - begin >= pressed * 200) send_text("\3", 1), pressed++;
  }
  printf("\n[terminal: '%s' did not come]\n", text);
  kill(child, SIGKILL);
  fflush(stdout);
  _exit(99);
}

/* Types, and takes what comes meanwhile, so that neither side waits for the other. */
static void send_text(const char *text, size_t size) {
  long end = now_ms() + LIMIT_MS;
  while (size && now_ms() < end) {
    struct pollfd both = {.fd = master, .events = POLLIN | POLLOUT};
    if (poll(&both, 1, 1000) != 1) continue;
    if ((both.revents & POLLIN) && !take_output()) return;
    if (!(both.revents & POLLOUT)) continue;
    ssize_t n = write(master, text, size < 512 ? size : 512);
    if (n > 0) text += n, size -= (size_t)n;
  }
}

/* Does the program sleep, with nothing left to read? */
static int is_settled(void) {
  char path[64], state = 0;
  int unread = 1, slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) return 1; /* it is gone */
  ioctl(slave, FIONREAD, &unread);
  close(slave);
  snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
  FILE *f = fopen(path, "re");
  if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 0;
  if (f) fclose(f);
  return unread == 0 && state == 'S';
}

static void settle(int needed) {
  long end = now_ms() + LIMIT_MS;
  for (int times = 0; times < needed && now_ms() < end;) {
    struct pollfd in = {.fd = master, .events = POLLIN};
    bool more = poll(&in, 1, 5) == 1;
    if (more && !take_output()) return;
    times = more || !is_settled() ? 0 : times + 1;
  }
}

static size_t unescape(char *text) {
  char *to = text;
  for (char *p = text; *p; p++) {
    if (*p != '\\') {
      *to++ = *p;
      continue;
    }
    char code[3] = {0};
    switch (*++p) {
    case 'n': *to++ = '\n'; break;
    case 'r': *to++ = '\r'; break;
    case 't': *to++ = '\t'; break;
    case 'e': *to++ = '\033'; break;
    case 'x':
      code[0] = p[1], code[1] = p[1] ? p[2] : 0;
      *to++ = (char)strtol(code, NULL, 16);
      p += strlen(code);
      break;
    default: *to++ = *p;
    }
  }
  *to = 0;
  return (size_t)(to - text);
}

static void play(char *line) {
  line[strcspn(line, "\n")] = 0;
  char *text = strchr(line, ' ');
  if (!text) return;
  *text++ = 0;
  size_t size = unescape(text);
  if (!strcmp(line, "expect")) expect(text, size, 0);
  if (!strcmp(line, "stop")) expect(text, size, 5);
  if (!strcmp(line, "send")) send_text(text, size);
  if (!strcmp(line, "settle")) settle(atoi(text));
  if (!strcmp(line, "interrupt"))
    for (int n = atoi(text); n > 0; n--) kill(child, SIGINT);
}

static int exit_code(void) {
  int status;
  long end = now_ms() + LIMIT_MS;
  struct pollfd in = {.fd = master, .events = POLLIN};
  while (now_ms() < end && (poll(&in, 1, 100) != 1 || take_output())) {}
  if (now_ms() >= end) expect("the program's end", 17, 0);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int argc, char **argv) {
  static char line[LINE];
  struct winsize size = {.ws_row = 40, .ws_col = 120};
  FILE *script = argc > 2 ? fopen(argv[1], "re") : NULL;
  if (!script) return 97;
  child = forkpty(&master, NULL, NULL, &size);
  if (child < 0) return 97;
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(97);
  }
  while (fgets(line, sizeof line, script)) play(line);
  int code = exit_code();
  fflush(stdout);
  return code;
}
