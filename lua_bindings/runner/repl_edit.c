/* repl_edit.c: lines: edited by libedit at a terminal, read plainly elsewhere.
 *
 * libedit is opened here because nothing else needs it, by its own interface, for which its bytes can be read by us
 * (repl_terminal.c): so Ctrl-C asks it to return, where a jump out of a handler would leave its structs half changed,
 * and a paste is put into the line as a whole, its line ends included. The constants are those of its histedit.h. */
#include <dlfcn.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#include "repl.h"

typedef struct editline editline;
typedef struct history history;
typedef struct history_event {
  int number;
  const char *text;
} history_event;
typedef struct line_info {
  const char *buffer, *cursor, *end;
} line_info;

enum { SET_PROMPT = 0, SET_EDITOR = 2, SET_SIGNAL = 3, SET_BIND = 4, SET_FUNCTION = 9, SET_HISTORY = 10 };
enum { SET_GETC = 13, SET_TERMINAL_MODE = 16, SET_REFRESH = 20 };
enum { DONE_NOTHING = 0, DONE_REFRESH = 4, DONE_ERROR = 6, DONE_REDISPLAY = 8 };
enum { HISTORY_SIZE = 1, HISTORY_ENTER = 10, HISTORY_LOAD = 17, HISTORY_SAVE = 18, HISTORY_UNIQUE = 20 };
enum { LINES_KEPT = 5000 };
enum { REFRESH = 28 }; /* Ctrl-\, which the terminal sends as a signal, never as a byte */

static struct {
  void *lib;
  editline *line;
  history *past;
  editline *(*init)(const char *name, FILE *in, FILE *out, FILE *err);
  void (*end)(editline *e);
  const char *(*gets)(editline *e, int *count);
  int (*set)(editline *e, int what, ...);
  int (*set_wide)(editline *e, int what, ...); /* keeps the texts it is given; the other one's copies are never freed */
  int (*insert)(editline *e, const char *text);
  void (*erase)(editline *e, int count);
  int (*cursor)(editline *e, int by);
  const line_info *(*info)(editline *e);
  void (*resize)(editline *e);
  int (*source)(editline *e, const char *path);
  history *(*history_init)(void);
  void (*history_end)(history *h);
  int (*history)(history *h, history_event *event, int what, ...);
} edit;

static lua_State *state;
static const char *prompt_text, *chunk_text;
static char history_path[1024];
static bool cancelled;
static int next_byte; /* what is taken before the terminal is asked; 0: nothing */

/* {==== What libedit asks */

static char *give_prompt(editline *e) { return (char *)prompt_text; }

static void to_plain_mode(void) { edit.set(edit.line, SET_TERMINAL_MODE, 0); }

/* A paste that ends with the end of a line is what Enter takes; else it stands in the line to be edited. */
static void insert_paste(void) {
  size_t size, to = 0;
  char *text = terminal_paste(&size);
  if (size && text[size - 1] == '\n') next_byte = '\n';
  while (size && text[size - 1] == '\n') size--;
  for (size_t i = 0; i < size; i++)
    if (text[i]) text[to++] = text[i];
  text[to] = 0;
  edit.insert(edit.line, text);
}

/* The line is given up, once the cursor stands at its end, so that what is printed next stands below it. */
static void give_up(void) {
  cancelled = true;
  edit.cursor(edit.line, 1 << 28);
  next_byte = TERMINAL_END;
}

/* The next byte, or TERMINAL_END. What comes in its stead is dealt with here and shown by the key REFRESH: libedit
 * draws the line anew after a key and at no other time. */
static int take_byte(void) {
  int c = next_byte ? next_byte : terminal_byte();
  next_byte = 0;
  switch (c) {
  case TERMINAL_CANCELLED: give_up(); return REFRESH;
  case TERMINAL_PASTE: insert_paste(); return REFRESH;
  case TERMINAL_RESIZED: edit.resize(edit.line); return REFRESH;
  case TERMINAL_RESUMED:
    edit.set(edit.line, SET_TERMINAL_MODE, 1);
    edit.set(edit.line, SET_REFRESH); /* where the cursor is now */
    return REFRESH;
  default: return c;
  }
}

/* The next character of whatever locale; bytes that are none in it are taken for themselves. */
static int give_char(editline *e, wchar_t *out) {
  mbstate_t shift = {0};
  for (;;) {
    int c = take_byte();
    if (c < 0) return 0;
    char byte = (char)c;
    size_t n = mbrtowc(out, &byte, 1, &shift);
    if (n == (size_t)-2) continue;
    if (n == (size_t)-1 || n == 0) *out = (wchar_t)c;
    return 1;
  }
}

static unsigned char refresh(editline *e, int key) { return DONE_REFRESH; }

/* {==== Completion */

/* What the chunk has so far, the line up to the cursor -> what is to be inserted; or nil and the names. */
static int find_names(lua_State *L) {
  lua_concat(L, 2);
  return repl_call(L, "runner/repl.prompt_complete", 1);
}

/* The Tab key. In the blanks that begin a line, and where more has come already (so nobody has pressed it), it is a
 * tab. */
static unsigned char complete(editline *e, int key) {
  const line_info *line = edit.info(e);
  const char *from = line->cursor;
  while (from > line->buffer && (from[-1] == ' ' || from[-1] == '\t')) from--;
  if (terminal_has_more() || from == line->buffer || from[-1] == '\n')
    return edit.insert(e, "\t") ? DONE_ERROR : DONE_REFRESH;
  int top = lua_gettop(state), done = DONE_ERROR;
  lua_pushcfunction(state, find_names);
  lua_pushstring(state, chunk_text);
  lua_pushlstring(state, line->buffer, (size_t)(line->cursor - line->buffer));
  bool any = lua_pcall(state, 2, 2, 0) == LUA_OK; /* else memory ran out */
  if (any && lua_isstring(state, -2)) {
    const char *text = lua_tostring(state, -2);
    done = *text ? DONE_REFRESH : DONE_NOTHING;
    edit.insert(e, text);
  } else if (any && lua_isstring(state, -1)) {
    fputs(lua_tostring(state, -1), stdout);
    fflush(stdout);
    done = DONE_REDISPLAY;
  }
  lua_settop(state, top);
  return (unsigned char)done;
}

/* {==== Opening */

static bool find_functions(void) {
  static const struct {
    const char *name;
    void *to;
  } wanted[] = {
      {"el_init", &edit.init},
      {"el_end", &edit.end},
      {"el_gets", &edit.gets},
      {"el_set", &edit.set},
      {"el_wset", &edit.set_wide},
      {"el_insertstr", &edit.insert},
      {"el_deletestr", &edit.erase},
      {"el_cursor", &edit.cursor},
      {"el_line", &edit.info},
      {"el_resize", &edit.resize},
      {"el_source", &edit.source},
      {"history_init", &edit.history_init},
      {"history_end", &edit.history_end},
      {"history", &edit.history},
  };
  edit.lib = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!edit.lib) edit.lib = dlopen("libedit.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!edit.lib) return false;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *found = dlsym(edit.lib, wanted[i].name);
    if (!found) return false;
    memcpy(wanted[i].to, &found, sizeof found);
  }
  return true;
}

/* What is typed is taken for UTF-8, unless the user's locale says that it is something else. */
static void set_locale(void) {
  if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968")) return;
  setlocale(LC_CTYPE, "C.UTF-8");
}

static void bind_keys(void) {
  static const char *const keys[][2] = {
      {"^I", "tide-complete"},           {"\\034", "tide-refresh"},    {"^R", "em-inc-search-prev"},
      {"\\e[H", "ed-move-to-beg"},       {"\\e[F", "ed-move-to-end"},  {"\\eOH", "ed-move-to-beg"},
      {"\\eOF", "ed-move-to-end"},       {"\\e[1~", "ed-move-to-beg"}, {"\\e[4~", "ed-move-to-end"},
      {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"},
  };
  edit.set_wide(edit.line, SET_FUNCTION, L"tide-refresh", L"draws the line anew", refresh);
  edit.set_wide(edit.line, SET_FUNCTION, L"tide-complete", L"completes what stands before the cursor", complete);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) edit.set(edit.line, SET_BIND, keys[i][0], keys[i][1], NULL);
}

static void find_history(void) {
  const char *path = getenv("TIDE_HISTORY"), *home = getenv("HOME"), *user_state = getenv("XDG_STATE_HOME");
  if (path)
    snprintf(history_path, sizeof history_path, "%s", path);
  else if (user_state && *user_state)
    snprintf(history_path, sizeof history_path, "%s/tide_history", user_state);
  else if (home)
    snprintf(history_path, sizeof history_path, "%s/.tide_history", home);
}

static void open_history(void) {
  history_event event;
  edit.past = edit.history_init();
  if (!edit.past) return;
  edit.history(edit.past, &event, HISTORY_SIZE, LINES_KEPT);
  edit.history(edit.past, &event, HISTORY_UNIQUE, 1);
  find_history();
  if (*history_path) edit.history(edit.past, &event, HISTORY_LOAD, history_path);
  edit.set(edit.line, SET_HISTORY, edit.history, edit.past);
}

void edit_open(lua_State *L) {
  const char *terminal = getenv("TERM");
  state = L;
  if (!isatty(STDIN_FILENO)) return;
  setvbuf(stdin, NULL, _IONBF, 0); /* what is typed ahead for io.read stays in the terminal */
  if (!isatty(STDOUT_FILENO) || !terminal || !strcmp(terminal, "dumb") || !find_functions()) return;
  set_locale();
  edit.line = edit.init("tide", stdin, stdout, stderr);
  if (!edit.line) return;
  edit.set(edit.line, SET_SIGNAL, 0);
  edit.set(edit.line, SET_EDITOR, "emacs");
  edit.set(edit.line, SET_PROMPT, give_prompt);
  edit.set(edit.line, SET_GETC, give_char);
  edit.source(edit.line, NULL); /* the user's ~/.editrc */
  bind_keys();
  open_history();
}

void edit_close(void) {
  if (!edit.line) return;
  if (edit.past) edit.history_end(edit.past);
  edit.end(edit.line);
  edit.line = NULL;
}

void edit_remember(const char *text) {
  history_event event;
  if (!edit.line || !edit.past || !*text) return;
  edit.history(edit.past, &event, HISTORY_ENTER, text);
  if (*history_path) edit.history(edit.past, &event, HISTORY_SAVE, history_path);
}

/* {==== Lines */

static repl_input read_edited(lua_State *L) {
  int count = 0;
  cancelled = false, next_byte = 0;
  terminal_begin(to_plain_mode);
  edit.set(edit.line, SET_TERMINAL_MODE, 1); /* before the prompt is seen: what is typed at it is read in this mode */
  const char *text = edit.gets(edit.line, &count);
  terminal_end();
  if (cancelled || !text || count <= 0) {
    fputs("\n", stdout);
    fflush(stdout);
    return cancelled ? REPL_CANCELLED : REPL_LAST;
  }
  size_t n = strlen(text);
  if (n && text[n - 1] == '\n') n--;
  lua_pushlstring(L, text, n);
  return REPL_LINE;
}

/* At a terminal that has no libedit: it edits the line, and Ctrl-C empties it. */
static repl_input read_terminal(lua_State *L) {
  static char *line;
  static size_t room;
  size_t size = 0;
  int c;
  terminal_begin(NULL);
  while ((c = terminal_plain_byte()) != '\n' && c != TERMINAL_CANCELLED && c != TERMINAL_END) {
    if (size == room) {
      char *grown = realloc(line, 2 * room + 256);
      if (!grown) break;
      line = grown, room = 2 * room + 256;
    }
    if (c >= 0) line[size++] = (char)c;
  }
  terminal_end();
  if (c == '\n' || (c == TERMINAL_END && size)) {
    lua_pushlstring(L, line ? line : "", size);
    return REPL_LINE;
  }
  fputs("\n", stdout);
  return c == TERMINAL_END ? REPL_LAST : REPL_CANCELLED;
}

static repl_input read_pipe(lua_State *L) {
  char *line = NULL;
  size_t room = 0;
  ssize_t n = getline(&line, &room, stdin);
  if (n > 0 && line[n - 1] == '\n') n--;
  if (n >= 0) lua_pushlstring(L, line, (size_t)n);
  free(line);
  return n >= 0 ? REPL_LINE : REPL_LAST;
}

repl_input edit_read(lua_State *L, const char *prompt, const char *before) {
  prompt_text = prompt, chunk_text = before;
  if (edit.line) return read_edited(L);
  fputs(prompt, stdout);
  fflush(stdout);
  return isatty(STDIN_FILENO) ? read_terminal(L) : read_pipe(L);
}
