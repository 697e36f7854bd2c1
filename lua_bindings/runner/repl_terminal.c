/* repl_terminal.c: what comes from the terminal while a line is edited: bytes, pastes and signals.
 *
 * From terminal_begin to terminal_end the signals are blocked but where a byte is waited for, so none can come in the
 * middle of anything; their handlers note the number and nothing else. What is to be done about one is done here, or by
 * who asked for the byte. A paste, which the terminal puts between two marks, is given as one piece; Ctrl-C drops one
 * that is under way with all that is still to come of it.
 *
 * Ctrl-C makes the terminal drop what was typed before it, at any moment: bytes that poll has promised may be gone when
 * they are read. A read never waits for them, since it would wait with the signals blocked and then give the next line
 * to the one that was dropped.
 *
 * Invariant: outside of the two calls every signal has the handler and mask that it had before. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "repl.h"
#include "runner.h"

enum { MARK = 6, QUIET_MS = 200, KEY_MS = 30, MOST_READ = 4096, MOST_PASTE = 1 << 28 };
static const char paste_begins[] = "\033[200~", paste_ends[] = "\033[201~";
static const int heard[] = {SIGTSTP, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
enum { HEARD = sizeof heard / sizeof *heard };

static volatile sig_atomic_t noted;
static sigset_t outside; /* the mask to wait with */
static struct sigaction before[HEARD];
static void (*at_rest)(void);
static int input = -1;                          /* the terminal, opened for us alone: reads of it do not wait */
static unsigned char waiting[MOST_READ + MARK]; /* read and not given yet */
static size_t waiting_from, waiting_to;
static struct {
  char *text;
  size_t size, room;
} paste;

static void note(int sig) { noted = sig; }

static void mark_pastes(bool on) {
  const char *text = on ? "\033[?2004h" : "\033[?2004l";
  if (isatty(STDOUT_FILENO) && write(STDOUT_FILENO, text, strlen(text)) < 0) return; /* no terminal any more */
}

/* The flag of a file that others have open too, as theirs the terminal's is, may not be changed. */
static void open_input(void) {
  if (input < 0) input = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (input < 0) input = STDIN_FILENO;
}

void terminal_begin(void (*rest)(void)) {
  sigset_t set;
  struct sigaction action = {.sa_handler = note};
  at_rest = rest;
  open_input();
  noted = 0;
  sigemptyset(&set);
  sigemptyset(&action.sa_mask);
  sigaddset(&set, SIGINT);
  for (int i = 0; i < HEARD; i++) sigaddset(&set, heard[i]);
  sigprocmask(SIG_BLOCK, &set, &outside);
  for (int i = 0; i < HEARD; i++) sigaction(heard[i], &action, &before[i]);
  interrupt_noticed();
  if (rest) mark_pastes(true);
}

void terminal_end(void) {
  if (at_rest) mark_pastes(false);
  for (int i = 0; i < HEARD; i++) sigaction(heard[i], &before[i], NULL);
  sigprocmask(SIG_SETMASK, &outside, NULL);
}

/* Does to the process what the signal would have done to it. */
static void let_through(int sig) {
  int k = 0;
  sigset_t set;
  struct sigaction ours;
  while (heard[k] != sig) k++;
  if (at_rest) mark_pastes(false), at_rest();
  sigemptyset(&set);
  sigaddset(&set, sig);
  sigaction(sig, &before[k], &ours);
  raise(sig);
  sigprocmask(SIG_UNBLOCK, &set, NULL); /* here it stops, or ends */
  sigprocmask(SIG_BLOCK, &set, NULL);
  sigaction(sig, &ours, NULL);
  if (at_rest) mark_pastes(true);
}

/* Waits for input: 1, 0 after so many ms (-1: for ever), or what else there is. */
static int wait_input(int ms) {
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  for (;;) {
    if (interrupt_noticed()) return TERMINAL_CANCELLED;
    int sig = noted;
    noted = 0;
    if (sig == SIGWINCH) return TERMINAL_RESIZED;
    if (sig) {
      let_through(sig);
      return TERMINAL_RESUMED;
    }
    int n = ppoll(&in, 1, ms < 0 ? NULL : &time, &outside);
    if (n >= 0) return n;
    if (errno != EINTR) return TERMINAL_END;
  }
}

/* One byte, or as many as there are, into `waiting` where that is empty. 1, 0 (nothing came, or it was dropped again)
 * or what else there is. */
static int fill(int ms, bool many) {
  if (waiting_from < waiting_to) return 1;
  int got = wait_input(ms);
  if (got != 1) return got;
  ssize_t n = read(input, waiting, many ? MOST_READ : 1);
  if (n <= 0) return n < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : TERMINAL_END;
  waiting_from = 0, waiting_to = (size_t)n;
  return 1;
}

/* Puts bytes that were taken out of `waiting` back before the others. */
static void put_back(const unsigned char *bytes, size_t n) {
  memmove(waiting + n, waiting + waiting_from, waiting_to - waiting_from);
  memcpy(waiting, bytes, n);
  waiting_to += n - waiting_from, waiting_from = 0;
}

bool terminal_has_more(void) {
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  return waiting_from < waiting_to || poll(&in, 1, 0) == 1;
}

/* {==== Pastes */

static bool add(unsigned char c) {
  if (paste.size + 1 >= paste.room) {
    size_t room = paste.room ? 2 * paste.room : 4096;
    char *grown = room > MOST_PASTE ? NULL : realloc(paste.text, room);
    if (!grown) return false;
    paste.text = grown, paste.room = room;
  }
  paste.text[paste.size++] = (char)c;
  return true;
}

static bool ends_with_mark(void) {
  return paste.size >= MARK && !memcmp(paste.text + paste.size - MARK, paste_ends, MARK);
}

/* Drops what is still to come of a paste: up to its end, or until nothing comes any more. */
static void drop_paste(void) {
  size_t matched = 0;
  while (matched < MARK) {
    int got = fill(QUIET_MS, true);
    if (got == 0 || got == TERMINAL_END) break;
    if (got != 1) continue;
    unsigned char c = waiting[waiting_from++];
    matched = c == (unsigned char)paste_ends[matched] ? matched + 1 : c == '\033';
  }
}

/* Reads up to the mark of the end. Lines end with \n, as in a file. */
static int read_paste(void) {
  paste.size = 0;
  for (;;) {
    int got = fill(-1, true);
    if (got == TERMINAL_END) return got;
    if (got == TERMINAL_CANCELLED) {
      drop_paste();
      return got;
    }
    if (got != 1) continue;
    unsigned char c = waiting[waiting_from++];
    if (!add(c == '\r' ? '\n' : c)) {
      drop_paste();
      return TERMINAL_CANCELLED;
    }
    if (!ends_with_mark()) continue;
    paste.size -= MARK;
    return TERMINAL_PASTE;
  }
}

char *terminal_paste(size_t *size) {
  *size = paste.size;
  return paste.text;
}

/* After an ESC: is this a paste? If not, what was read to find out comes next. */
static int after_escape(void) {
  unsigned char seen[MARK] = "\033";
  size_t n = 1;
  while (n < MARK && seen[n - 1] == (unsigned char)paste_begins[n - 1]) {
    int got = fill(KEY_MS, false);
    if (got == TERMINAL_CANCELLED) return got;
    if (got != 1) break;
    seen[n++] = waiting[waiting_from++];
  }
  if (n == MARK && !memcmp(seen, paste_begins, MARK)) return read_paste();
  put_back(seen + 1, n - 1);
  return '\033';
}

static int next_byte(bool many) {
  int got;
  do {
    got = fill(-1, many);
    if (got < 0) return got;
  } while (got != 1);
  return waiting[waiting_from++];
}

/* A terminal that edits lines gives one whole line at a time, of which Ctrl-C cannot drop the rest any more. */
int terminal_plain_byte(void) { return next_byte(true); }

int terminal_byte(void) {
  int c = next_byte(false);
  return c == '\033' ? after_escape() : c;
}
