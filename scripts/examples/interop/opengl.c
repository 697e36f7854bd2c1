/* opengl.c: a renderer in OpenGL, without a window, whose vertices a Lua script writes where they lie.
 *
 *   opengl [picture.png [scene.lua [copy]]]
 *
 * On a GPU the vertex buffer and the buffer of a buffer texture are tensors by turns: acquiring maps them behind GL's
 * earlier commands, releasing gives them back before what comes, and the host waits for neither. Without a device
 * that can do this, the script computes on the CPU in buffers that stay mapped, and the host waits for each frame.
 * Either way nothing is copied; only the finished picture is.
 *
 * With `copy` the shader samples a texture of two dimensions, which has no linear addresses: the script writes a tensor
 * of tide's, which is copied into it on the device, or a mapped buffer that GL copies from. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EGL_NO_X11
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>

#include "scene.h"
#include "tide/device.h"
#include "tide/external.h"

/* ---- EGL's and GL's functions: looked up, so that a machine without them can say so ---- */

typedef void (*function)(void);
static function (*get)(const char *name);
#define FIND(type, name) ((type)get(name))

#define FUNCTIONS(F)                                                                                                   \
  F(PFNGLGENBUFFERSPROC, GenBuffers)                                                                                   \
  F(PFNGLBINDBUFFERPROC, BindBuffer)                                                                                   \
  F(PFNGLBUFFERSTORAGEPROC, BufferStorage)                                                                             \
  F(PFNGLMAPBUFFERRANGEPROC, MapBufferRange)                                                                           \
  F(PFNGLGENVERTEXARRAYSPROC, GenVertexArrays)                                                                         \
  F(PFNGLBINDVERTEXARRAYPROC, BindVertexArray)                                                                         \
  F(PFNGLVERTEXATTRIBPOINTERPROC, VertexAttribPointer)                                                                 \
  F(PFNGLENABLEVERTEXATTRIBARRAYPROC, EnableVertexAttribArray)                                                         \
  F(PFNGLCREATESHADERPROC, CreateShader)                                                                               \
  F(PFNGLSHADERSOURCEPROC, ShaderSource)                                                                               \
  F(PFNGLCOMPILESHADERPROC, CompileShader)                                                                             \
  F(PFNGLCREATEPROGRAMPROC, CreateProgram)                                                                             \
  F(PFNGLATTACHSHADERPROC, AttachShader)                                                                               \
  F(PFNGLLINKPROGRAMPROC, LinkProgram)                                                                                 \
  F(PFNGLGETPROGRAMIVPROC, GetProgramiv)                                                                               \
  F(PFNGLGETPROGRAMINFOLOGPROC, GetProgramInfoLog)                                                                     \
  F(PFNGLUSEPROGRAMPROC, UseProgram)                                                                                   \
  F(PFNGLGENFRAMEBUFFERSPROC, GenFramebuffers)                                                                         \
  F(PFNGLBINDFRAMEBUFFERPROC, BindFramebuffer)                                                                         \
  F(PFNGLFRAMEBUFFERTEXTURE2DPROC, FramebufferTexture2D)                                                               \
  F(PFNGLTEXBUFFERPROC, TexBuffer)                                                                                     \
  F(PFNGLTEXSTORAGE2DPROC, TexStorage2D)                                                                               \
  F(void (*)(GLsizei, GLuint *), GenTextures)                                                                          \
  F(void (*)(GLenum, GLuint), BindTexture)                                                                             \
  F(void (*)(GLenum, GLenum, GLint), TexParameteri)                                                                    \
  F(void (*)(GLenum, GLint, GLint, GLint, GLsizei, GLsizei, GLenum, GLenum, const void *), TexSubImage2D)              \
  F(void (*)(GLint, GLint, GLsizei, GLsizei), Viewport)                                                                \
  F(void (*)(GLfloat, GLfloat, GLfloat, GLfloat), ClearColor)                                                          \
  F(void (*)(GLbitfield), Clear)                                                                                       \
  F(void (*)(GLenum, GLsizei, GLenum, const void *), DrawElements)                                                     \
  F(void (*)(GLint, GLint, GLsizei, GLsizei, GLenum, GLenum, void *), ReadPixels)                                      \
  F(void (*)(void), Finish)                                                                                            \
  F(GLenum (*)(void), GetError)                                                                                        \
  F(const GLubyte *(*)(GLenum), GetString)
#define DECLARE(type, name) static __typeof__(type) gl##name##_;
FUNCTIONS(DECLARE)
#define GL(name, ...) gl##name##_(__VA_ARGS__)

static bool shared; /* with tide's device 0; else by mapped buffers */

/* ---- a context without a window ---- */

static bool open_context(void *egl, EGLDeviceEXT d, PFNEGLGETPLATFORMDISPLAYEXTPROC display_of) {
#define EGL(name) ((__typeof__(&egl##name))dlsym(egl, "egl" #name))
  static const EGLint config_wanted[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT,
                                         EGL_NONE};
  static const EGLint context_wanted[] = {
      EGL_CONTEXT_MAJOR_VERSION,           4,       EGL_CONTEXT_MINOR_VERSION, 4, EGL_CONTEXT_OPENGL_PROFILE_MASK,
      EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE};
  EGLDisplay display = display_of(EGL_PLATFORM_DEVICE_EXT, d, NULL);
  EGLConfig config;
  EGLint n = 0, major, minor;
  if (!display || !EGL(Initialize)(display, &major, &minor)) return false;
  if (!EGL(BindAPI)(EGL_OPENGL_API) || !EGL(ChooseConfig)(display, config_wanted, &config, 1, &n) || !n) return false;
  EGLContext context = EGL(CreateContext)(display, config, EGL_NO_CONTEXT, context_wanted);
  if (!context || !EGL(MakeCurrent)(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context)) return false;
#define GET(type, name) gl##name##_ = (__typeof__(gl##name##_))get("gl" #name);
  FUNCTIONS(GET)
  printf("OpenGL: %s, %s\n", GL(GetString, GL_RENDERER), GL(GetString, GL_VERSION));
  return true;
}

/* Is it the device that tide computes on? */
static bool is_tides(EGLDeviceEXT d) {
  PFNEGLQUERYDEVICEATTRIBEXTPROC ask = FIND(PFNEGLQUERYDEVICEATTRIBEXTPROC, "eglQueryDeviceAttribEXT");
  PFNEGLQUERYDEVICESTRINGEXTPROC text = FIND(PFNEGLQUERYDEVICESTRINGEXTPROC, "eglQueryDeviceStringEXT");
  const char *extensions = text ? text(d, EGL_EXTENSIONS) : NULL;
  const tide_device_props *props;
  EGLAttrib cuda = -1;
  printf("EGL device: %s\n", extensions && *extensions ? extensions : "no extensions");
  if (!tide_device_count() || !extensions || !strstr(extensions, "EGL_NV_device_cuda")) return false;
  OK(tide_device_get_props(&props, 0));
  return !props->simulated && ask && ask(d, EGL_CUDA_DEVICE_NV, &cuda) && cuda == 0;
}

static void find_opengl(bool copies) {
  void *egl = dlopen("libEGL.so.1", RTLD_NOW);
  if (!egl) skip("libEGL.so.1: %s", dlerror());
  *(void **)&get = dlsym(egl, "eglGetProcAddress");
  PFNEGLQUERYDEVICESEXTPROC list = FIND(PFNEGLQUERYDEVICESEXTPROC, "eglQueryDevicesEXT");
  PFNEGLGETPLATFORMDISPLAYEXTPROC display_of = FIND(PFNEGLGETPLATFORMDISPLAYEXTPROC, "eglGetPlatformDisplayEXT");
  EGLDeviceEXT device[16];
  EGLint n = 0, own = -1;
  if (!list || !display_of) skip("EGL_EXT_platform_device: this EGL needs a window system");
  if (!list(16, device, &n) || !n) skip("a device of EGL's: no driver of the machine has one");
  for (EGLint i = 0; i < n && own < 0; i++)
    if (is_tides(device[i])) own = i;
  shared = own >= 0 && open_context(egl, device[own], display_of);
  for (EGLint i = 0; i < n && !shared; i++)
    if (i != own && open_context(egl, device[i], display_of)) break;
  if (!glGetString_) skip("a driver for OpenGL 4.4");
  printf(shared ? "tide computes on it, in OpenGL's buffers\n"
                : "none of them is a device of tide's: tide computes on the cpu, in mapped buffers\n");
  printf("the vertices are not copied; the texture %s\n", copies ? "is, into GL's" : "is not: it is a buffer texture");
}

/* ---- what is drawn ---- */

static const char *const vertex_text = "#version 330\n"
                                       "layout(location = 0) in vec4 position;\n"
                                       "out vec2 uv;\n"
                                       "const ivec2 grid = ivec2(%d, %d);\n"
                                       "void main() {\n"
                                       "  uv = vec2(gl_VertexID %% grid.x, gl_VertexID / grid.x) / vec2(grid - 1);\n"
                                       "  gl_Position = vec4(position.xy, 0, position.w);\n"
                                       "}\n";
static const char *const fragment_text = "#version 330\n"
                                         "%s\n"
                                         "in vec2 uv;\n"
                                         "out vec4 colour;\n"
                                         "#ifdef COPY\n"
                                         "uniform sampler2D picture;\n"
                                         "void main() { colour = texture(picture, uv); }\n"
                                         "#else\n"
                                         "uniform samplerBuffer picture;\n"
                                         "void main() {\n"
                                         "  ivec2 at = min(ivec2(uv * %d), %d - 1);\n"
                                         "  colour = texelFetch(picture, at.y * %d + at.x);\n"
                                         "}\n"
                                         "#endif\n";

static void add_shader(GLuint program, GLenum kind, const char *text) {
  GLuint shader = GL(CreateShader, kind);
  GL(ShaderSource, shader, 1, &text, NULL);
  GL(CompileShader, shader);
  GL(AttachShader, program, shader);
}

static void use_program(bool copies) {
  char text[1024], log[1024] = "";
  GLint linked = 0;
  GLuint program = GL(CreateProgram);
  snprintf(text, sizeof text, vertex_text, COLUMNS, ROWS);
  add_shader(program, GL_VERTEX_SHADER, text);
  snprintf(text, sizeof text, fragment_text, copies ? "#define COPY" : "", TEXTURE, TEXTURE, TEXTURE);
  add_shader(program, GL_FRAGMENT_SHADER, text);
  GL(LinkProgram, program);
  GL(GetProgramiv, program, GL_LINK_STATUS, &linked);
  GL(GetProgramInfoLog, program, sizeof log, NULL, log);
  if (!linked) fail("the shaders: %s", log);
  GL(UseProgram, program);
}

static GLuint new_texture(int w, int h) {
  GLuint t;
  GL(GenTextures, 1, &t);
  GL(BindTexture, GL_TEXTURE_2D, t);
  GL(TexStorage2D, GL_TEXTURE_2D, 1, GL_RGBA8, w, h);
  GL(TexParameteri, GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  GL(TexParameteri, GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  return t;
}

/* A buffer, bound to `target`. *ptr: where it stays mapped, if ptr is given. */
static GLuint new_buffer(GLenum target, size_t bytes, const void *data, void **ptr) {
  const GLbitfield mapped = GL_MAP_WRITE_BIT | GL_MAP_PERSISTENT_BIT | GL_MAP_COHERENT_BIT;
  GLuint b;
  GL(GenBuffers, 1, &b);
  GL(BindBuffer, target, b);
  GL(BufferStorage, target, (GLsizeiptr)bytes, data, ptr ? mapped : 0);
  if (ptr && !(*ptr = GL(MapBufferRange, target, 0, (GLsizeiptr)bytes, mapped))) fail("a buffer cannot be mapped");
  return b;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  static uint32_t indices[INDICES];
  static uint8_t pixels[HEIGHT][WIDTH][4], flipped[HEIGHT][WIDTH][4];
  const int64_t grid[] = {ROWS, COLUMNS, 4}, image[] = {TEXTURE, TEXTURE, 4};
  const size_t vertex_bytes = sizeof(float) * ROWS * COLUMNS * 4, image_bytes = (size_t)TEXTURE * TEXTURE * 4;
  const bool copies = argc > 3;
  OK(tide_init(NULL));
  find_opengl(copies);

  GLuint frame, array, target = new_texture(WIDTH, HEIGHT);
  GL(GenFramebuffers, 1, &frame);
  GL(BindFramebuffer, GL_FRAMEBUFFER, frame);
  GL(FramebufferTexture2D, GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, target, 0);
  GL(Viewport, 0, 0, WIDTH, HEIGHT);
  GL(GenVertexArrays, 1, &array);
  GL(BindVertexArray, array);
  scene_indices(indices);
  new_buffer(GL_ELEMENT_ARRAY_BUFFER, sizeof indices, indices, NULL);
  void *vertex_map, *image_map;
  GLuint vertices = new_buffer(GL_ARRAY_BUFFER, vertex_bytes, NULL, shared ? NULL : &vertex_map);
  GL(VertexAttribPointer, 0, 4, GL_FLOAT, GL_FALSE, 0, NULL);
  GL(EnableVertexAttribArray, 0);
  use_program(copies);

  tide_tensor *x, *y;
  tide_gl_texture *written = NULL;
  tide_options floats = tide_options_defaults();
  floats.dtype = TIDE_FLOAT32, floats.device = shared ? 0 : TIDE_CPU;
  tide_options bytes = tide_options_defaults();
  bytes.dtype = TIDE_UINT8, bytes.device = floats.device;
  GLuint texture = 0, texels = 0;
  if (copies) texture = new_texture(TEXTURE, TEXTURE);
  if (!copies || !shared)
    texels =
        new_buffer(copies ? GL_PIXEL_UNPACK_BUFFER : GL_TEXTURE_BUFFER, image_bytes, NULL, shared ? NULL : &image_map);
  if (!copies) {
    GL(GenTextures, 1, &texture);
    GL(BindTexture, GL_TEXTURE_BUFFER, texture);
    GL(TexBuffer, GL_TEXTURE_BUFFER, GL_RGBA8, texels);
  }
  if (!shared) {
    OK(tide_from_ptr(&x, vertex_map, grid, NULL, 3, &floats, NULL, NULL));
    OK(tide_from_ptr(&y, image_map, image, NULL, 3, &bytes, NULL, NULL));
  } else {
    OK(tide_import_gl_buffer(&x, vertices, 0, grid, NULL, 3, &floats));
    if (copies) OK(tide_import_gl_texture(&written, texture, GL_TEXTURE_2D, 0));
    if (copies) OK(tide_empty(&y, image, 3, &bytes));
    if (!copies) OK(tide_import_gl_buffer(&y, texels, 0, image, NULL, 3, &bytes));
  }

  scene_open(argc > 2 ? argv[2] : HOST_SCRIPT, x, y);
  double start = now();
  for (int i = 0; i < FRAMES; i++) {
    if (shared) OK(tide_external_acquire(x, 0));
    if (shared && !copies) OK(tide_external_acquire(y, 0));
    scene_update(i);
    if (shared) OK(tide_external_release(x, 0));
    if (shared && !copies) OK(tide_external_release(y, 0));
    if (shared && copies) OK(tide_gl_texture_write(written, y));
    if (!shared && copies) GL(TexSubImage2D, GL_TEXTURE_2D, 0, 0, 0, TEXTURE, TEXTURE, GL_RGBA, GL_UNSIGNED_BYTE, NULL);
    GL(ClearColor, 0.02F, 0.03F, 0.08F, 1);
    GL(Clear, GL_COLOR_BUFFER_BIT);
    GL(DrawElements, GL_TRIANGLES, INDICES, GL_UNSIGNED_INT, NULL);
    if (!shared) GL(Finish);
  }
  GL(Finish);
  double seconds = now() - start;
  GL(ReadPixels, 0, 0, WIDTH, HEIGHT, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
  GLenum error = GL(GetError);
  if (error) fail("OpenGL: error 0x%x", error);
  for (int row = 0; row < HEIGHT; row++) memcpy(flipped[row], pixels[HEIGHT - 1 - row], sizeof *pixels);
  scene_save(argc > 1 ? argv[1] : "opengl.png", flipped, seconds);

  scene_close();
  tide_tensor_release(x), tide_tensor_release(y);
  tide_gl_texture_release(written);
  tide_shutdown();
  return 0;
}
