/* vulkan.c: a renderer in Vulkan whose vertices and texture a Lua script writes where they lie.
 *
 *   vulkan [picture.png [scene.lua [copy]]]
 *
 * On a GPU the vertex buffer and a linear image are allocated by Vulkan and imported by tide, with one timeline
 * semaphore between them: in frame i the script's work waits for 2i and ends with 2i + 1, the drawing waits for 2i + 1
 * and ends with 2i + 2. The host queues both and waits for neither. Without a device that can do this, the two lie in
 * memory that both the renderer and the CPU see, the script computes on the CPU, and the host waits for each frame.
 * Either way nothing is copied; only the finished picture is.
 *
 * With `copy`, or where linear images cannot be exported, the script writes a second buffer, which each frame copies to
 * an image with VK_IMAGE_TILING_OPTIMAL: that is sampled faster than a linear one. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "scene.h"
#include "tide/device.h"
#include "tide/external.h"

#include "grid.frag.h"
#include "grid.vert.h"

/* ---- Vulkan's functions: looked up, so that a machine without it can say so ---- */

#define GLOBALS(F) F(CreateInstance)
#define INSTANCES(F)                                                                                                   \
  F(EnumeratePhysicalDevices)                                                                                          \
  F(GetPhysicalDeviceProperties2)                                                                                      \
  F(GetPhysicalDeviceFeatures2)                                                                                        \
  F(GetPhysicalDeviceMemoryProperties)                                                                                 \
  F(GetPhysicalDeviceQueueFamilyProperties)                                                                            \
  F(GetPhysicalDeviceImageFormatProperties2)                                                                           \
  F(EnumerateDeviceExtensionProperties)                                                                                \
  F(CreateDevice)                                                                                                      \
  F(GetDeviceProcAddr)                                                                                                 \
  F(DestroyInstance)
#define DEVICES(F)                                                                                                     \
  F(GetDeviceQueue)                                                                                                    \
  F(CreateBuffer)                                                                                                      \
  F(CreateImage)                                                                                                       \
  F(GetBufferMemoryRequirements)                                                                                       \
  F(GetImageMemoryRequirements)                                                                                        \
  F(GetImageSubresourceLayout)                                                                                         \
  F(AllocateMemory)                                                                                                    \
  F(FreeMemory)                                                                                                        \
  F(BindBufferMemory)                                                                                                  \
  F(BindImageMemory)                                                                                                   \
  F(MapMemory)                                                                                                         \
  F(CreateImageView)                                                                                                   \
  F(CreateSampler)                                                                                                     \
  F(CreateSemaphore)                                                                                                   \
  F(CreateShaderModule)                                                                                                \
  F(CreateDescriptorSetLayout)                                                                                         \
  F(CreateDescriptorPool)                                                                                              \
  F(AllocateDescriptorSets)                                                                                            \
  F(UpdateDescriptorSets)                                                                                              \
  F(CreatePipelineLayout)                                                                                              \
  F(CreateRenderPass)                                                                                                  \
  F(CreateFramebuffer)                                                                                                 \
  F(CreateGraphicsPipelines)                                                                                           \
  F(CreateCommandPool)                                                                                                 \
  F(AllocateCommandBuffers)                                                                                            \
  F(BeginCommandBuffer)                                                                                                \
  F(EndCommandBuffer)                                                                                                  \
  F(CmdPipelineBarrier)                                                                                                \
  F(CmdBeginRenderPass)                                                                                                \
  F(CmdEndRenderPass)                                                                                                  \
  F(CmdBindPipeline)                                                                                                   \
  F(CmdBindVertexBuffers)                                                                                              \
  F(CmdBindIndexBuffer)                                                                                                \
  F(CmdBindDescriptorSets)                                                                                             \
  F(CmdPushConstants)                                                                                                  \
  F(CmdDrawIndexed)                                                                                                    \
  F(CmdCopyImageToBuffer)                                                                                              \
  F(CmdCopyBufferToImage)                                                                                              \
  F(QueueSubmit)                                                                                                       \
  F(QueueWaitIdle)                                                                                                     \
  F(DestroyDevice)
/* What is made, and has to be destroyed. */
#define KINDS(F)                                                                                                       \
  F(Buffer)                                                                                                            \
  F(Image)                                                                                                             \
  F(ImageView)                                                                                                         \
  F(Sampler)                                                                                                           \
  F(Semaphore)                                                                                                         \
  F(ShaderModule)                                                                                                      \
  F(DescriptorSetLayout)                                                                                               \
  F(DescriptorPool)                                                                                                    \
  F(PipelineLayout)                                                                                                    \
  F(RenderPass)                                                                                                        \
  F(Framebuffer)                                                                                                       \
  F(Pipeline)                                                                                                          \
  F(CommandPool)
#define EXPORTS(F)                                                                                                     \
  F(GetMemoryFdKHR)                                                                                                    \
  F(GetSemaphoreFdKHR)
#define ALL(F)        GLOBALS(F) INSTANCES(F) DEVICES(F) EXPORTS(F)
#define DECLARE(name) static PFN_vk##name vk##name;
ALL(DECLARE)
#define DECLARE_END(name) static PFN_vkDestroy##name vkDestroy##name;
KINDS(DECLARE_END)

#define VK(call)                                                                                                       \
  do {                                                                                                                 \
    VkResult result_ = (call);                                                                                         \
    if (result_ != VK_SUCCESS) fail("%s: VkResult %d", #call, (int)result_);                                           \
  } while (0)

static VkInstance instance;
static VkPhysicalDevice chosen;
static VkDevice device;
static VkQueue queue;
static uint32_t family;
static bool shared; /* with tide's device 0; else by mapped memory */
static bool copies; /* the texture is copied to its image from a buffer, which the script writes */
static VkPhysicalDeviceMemoryProperties memories;

static void find_vulkan(void) {
  void *library = dlopen("libvulkan.so.1", RTLD_NOW);
  if (!library) skip("libvulkan.so.1, Vulkan's loader: %s", dlerror());
  PFN_vkGetInstanceProcAddr get = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
  vkCreateInstance = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
  VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
  VkResult result = vkCreateInstance(&info, NULL, &instance);
  if (result != VK_SUCCESS) skip("a driver for Vulkan 1.2: vkCreateInstance gives %d", (int)result);
#define GET(name) vk##name = (PFN_vk##name)get(instance, "vk" #name);
  INSTANCES(GET)
}

static bool has_extension(VkPhysicalDevice d, const char *name) {
  VkExtensionProperties list[512];
  uint32_t n = 512;
  vkEnumerateDeviceExtensionProperties(d, NULL, &n, list);
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(list[i].extensionName, name)) return true;
  return false;
}

/* Can the linear image be exported? */
static bool exports_image(VkPhysicalDevice d) {
  VkPhysicalDeviceExternalImageFormatInfo external = {.sType =
                                                          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_IMAGE_FORMAT_INFO,
                                                      .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkPhysicalDeviceImageFormatInfo2 info = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_IMAGE_FORMAT_INFO_2,
                                           .pNext = &external,
                                           .format = VK_FORMAT_R8G8B8A8_UNORM,
                                           .type = VK_IMAGE_TYPE_2D,
                                           .tiling = VK_IMAGE_TILING_LINEAR,
                                           .usage = VK_IMAGE_USAGE_SAMPLED_BIT};
  VkExternalImageFormatProperties can = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_IMAGE_FORMAT_PROPERTIES};
  VkImageFormatProperties2 out = {.sType = VK_STRUCTURE_TYPE_IMAGE_FORMAT_PROPERTIES_2, .pNext = &can};
  if (vkGetPhysicalDeviceImageFormatProperties2(d, &info, &out) != VK_SUCCESS) return false;
  return (can.externalMemoryProperties.externalMemoryFeatures & VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT) != 0;
}

/* Is it the device that tide computes on, and can it hand out what tide takes? */
static bool is_tides(VkPhysicalDevice d, const VkPhysicalDeviceIDProperties *id) {
  const tide_device_props *props;
  if (!tide_device_count()) return false;
  OK(tide_device_get_props(&props, 0));
  if (props->simulated || memcmp(props->uuid, id->deviceUUID, sizeof props->uuid)) return false;
  if (has_extension(d, "VK_KHR_external_memory_fd") && has_extension(d, "VK_KHR_external_semaphore_fd")) return true;
  printf("it exports no memory or no semaphores\n");
  return false;
}

static void choose_device(bool asked_to_copy) {
  VkPhysicalDevice list[16];
  uint32_t n = 16;
  vkEnumeratePhysicalDevices(instance, &n, list);
  if (!n) skip("a device of Vulkan's: the loader found drivers, and they found none");
  for (uint32_t i = 0; i < n && !shared; i++) {
    VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
    vkGetPhysicalDeviceProperties2(list[i], &p);
    printf("vulkan device %u: %s, Vulkan %u.%u\n", i, p.properties.deviceName,
           VK_API_VERSION_MAJOR(p.properties.apiVersion), VK_API_VERSION_MINOR(p.properties.apiVersion));
    if (p.properties.apiVersion < VK_API_VERSION_1_2) continue; /* no timeline semaphores */
    shared = is_tides(list[i], &id);
    if (shared || !chosen) chosen = list[i];
  }
  if (!chosen) skip("a device of Vulkan 1.2");
  bool possible = !shared || exports_image(chosen);
  copies = asked_to_copy || !possible;
  printf(shared ? "tide computes on it, in Vulkan's memory\n"
                : "none of them is a device of tide's that can share: tide computes on the cpu, in mapped memory\n");
  printf("the vertices are not copied; the texture %s%s\n",
         copies ? "is, from a buffer to its image" : "is not: it is a linear image",
         possible ? "" : ", since linear images cannot be exported");
}

static void open_device(void) {
  VkQueueFamilyProperties families[16];
  uint32_t n = 16;
  vkGetPhysicalDeviceQueueFamilyProperties(chosen, &n, families);
  while (family < n && !(families[family].queueFlags & VK_QUEUE_GRAPHICS_BIT)) family++;
  if (family == n) skip("a queue for graphics: this device only computes");
  float priority = 1;
  VkDeviceQueueCreateInfo q = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                               .queueFamilyIndex = family,
                               .queueCount = 1,
                               .pQueuePriorities = &priority};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
  static const char *const names[] = {"VK_KHR_external_memory_fd", "VK_KHR_external_semaphore_fd"};
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .pNext = shared ? &timeline : NULL,
                             .queueCreateInfoCount = 1,
                             .pQueueCreateInfos = &q,
                             .enabledExtensionCount = shared ? 2 : 0,
                             .ppEnabledExtensionNames = names};
  VK(vkCreateDevice(chosen, &info, NULL, &device));
#define GET_OF(name) vk##name = (PFN_vk##name)vkGetDeviceProcAddr(device, "vk" #name);
  DEVICES(GET_OF)
  EXPORTS(GET_OF)
#define GET_END(name) vkDestroy##name = (PFN_vkDestroy##name)vkGetDeviceProcAddr(device, "vkDestroy" #name);
  KINDS(GET_END)
  vkGetDeviceQueue(device, family, 0, &queue);
  vkGetPhysicalDeviceMemoryProperties(chosen, &memories);
}

/* ---- what was made, in order ---- */

typedef struct made {
#define NAME(name) OF_##name,
  enum { KINDS(NAME) OF_DeviceMemory } kind;
#define MEMBER(name) Vk##name name;
  union {
    KINDS(MEMBER)
    VkDeviceMemory DeviceMemory;
  } is;
} made;
static made kept[64];
static int kept_n;
#define KEEP(name, object) (kept[kept_n++] = (made){OF_##name, {.name = object}})

static void destroy_all(void) {
#define END(name)                                                                                                      \
  case OF_##name: vkDestroy##name(device, m->is.name, NULL); break;
  while (kept_n--) {
    const made *m = &kept[kept_n];
    switch (m->kind) {
      KINDS(END)
    case OF_DeviceMemory: vkFreeMemory(device, m->is.DeviceMemory, NULL); break;
    }
  }
  vkDestroyDevice(device, NULL);
  vkDestroyInstance(instance, NULL);
}

/* ---- memory ---- */

typedef struct piece {
  VkDeviceMemory memory;
  VkDeviceSize bytes; /* of the allocation */
} piece;

enum { MAPPED = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT };

/* An allocation for one buffer or image; `exported`: for tide. */
static piece allocate(VkMemoryRequirements need, VkMemoryPropertyFlags wanted, bool exported, VkBuffer buffer,
                      VkImage image) {
  VkMemoryDedicatedAllocateInfo dedicated = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, .buffer = buffer, .image = image};
  VkExportMemoryAllocateInfo share = {.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
                                      .pNext = &dedicated,
                                      .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkMemoryAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .pNext = exported ? &share : NULL, .allocationSize = need.size};
  piece p = {.bytes = need.size};
  for (uint32_t i = 0; i < memories.memoryTypeCount; i++) {
    if (!(need.memoryTypeBits >> i & 1) || (memories.memoryTypes[i].propertyFlags & wanted) != wanted) continue;
    info.memoryTypeIndex = i;
    VK(vkAllocateMemory(device, &info, NULL, &p.memory));
    KEEP(DeviceMemory, p.memory);
    return p;
  }
  fail("no memory of the kind 0x%x that this needs", wanted);
}

static VkBuffer new_buffer(piece *p, VkDeviceSize bytes, VkBufferUsageFlags usage, VkMemoryPropertyFlags wanted,
                           bool exported) {
  VkExternalMemoryBufferCreateInfo share = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                            .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkBufferCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .pNext = exported ? &share : NULL, .size = bytes, .usage = usage};
  VkBuffer buffer;
  VkMemoryRequirements need;
  VK(vkCreateBuffer(device, &info, NULL, &buffer));
  KEEP(Buffer, buffer);
  vkGetBufferMemoryRequirements(device, buffer, &need);
  *p = allocate(need, wanted, exported, buffer, VK_NULL_HANDLE);
  VK(vkBindBufferMemory(device, buffer, p->memory, 0));
  return buffer;
}

/* Of linear addresses, exported or mapped, or else as the device likes it. */
static VkImage new_image(piece *p, uint32_t w, uint32_t h, VkImageUsageFlags usage, bool linear) {
  bool exported = linear && shared;
  VkExternalMemoryImageCreateInfo share = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_IMAGE_CREATE_INFO,
                                           .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkImageCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
                            .pNext = exported ? &share : NULL,
                            .imageType = VK_IMAGE_TYPE_2D,
                            .format = VK_FORMAT_R8G8B8A8_UNORM,
                            .extent = {w, h, 1},
                            .mipLevels = 1,
                            .arrayLayers = 1,
                            .samples = VK_SAMPLE_COUNT_1_BIT,
                            .tiling = linear ? VK_IMAGE_TILING_LINEAR : VK_IMAGE_TILING_OPTIMAL,
                            .usage = usage,
                            /* What shares memory begins as nothing; what is mapped may be written before it is used. */
                            .initialLayout =
                                linear && !shared ? VK_IMAGE_LAYOUT_PREINITIALIZED : VK_IMAGE_LAYOUT_UNDEFINED};
  VkImage image;
  VkMemoryRequirements need;
  VK(vkCreateImage(device, &info, NULL, &image));
  KEEP(Image, image);
  vkGetImageMemoryRequirements(device, image, &need);
  *p =
      allocate(need, linear && !shared ? MAPPED : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, exported, VK_NULL_HANDLE, image);
  VK(vkBindImageMemory(device, image, p->memory, 0));
  return image;
}

static VkImageView view_of(VkImage image) {
  VkImageViewCreateInfo info = {.sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
                                .image = image,
                                .viewType = VK_IMAGE_VIEW_TYPE_2D,
                                .format = VK_FORMAT_R8G8B8A8_UNORM,
                                .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
  VkImageView view;
  VK(vkCreateImageView(device, &info, NULL, &view));
  KEEP(ImageView, view);
  return view;
}

/* ---- what tide gets of it ---- */

static void *map(const piece *p) {
  void *ptr;
  VK(vkMapMemory(device, p->memory, 0, VK_WHOLE_SIZE, 0, &ptr));
  return ptr;
}

/* A tensor on the piece: imported, or on what is mapped. ready, done: see external.h. */
static tide_tensor *tensor_on(const piece *p, size_t offset, const int64_t *size, const int64_t *stride,
                              tide_dtype dtype, tide_semaphore *ready, tide_semaphore *done) {
  tide_tensor *x;
  tide_options options = tide_options_defaults();
  options.dtype = dtype, options.device = shared ? 0 : TIDE_CPU;
  if (!shared) {
    OK(tide_from_ptr(&x, (char *)map(p) + offset, size, stride, 3, &options, NULL, NULL));
    return x;
  }
  VkMemoryGetFdInfoKHR get = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                              .memory = p->memory,
                              .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
  tide_external_memory m = {.dedicated = true, .bytes = p->bytes, .offset = offset, .ready = ready, .done = done};
  VK(vkGetMemoryFdKHR(device, &get, &m.fd));
  OK(tide_import_memory(&x, &m, size, stride, 3, &options));
  return x;
}

static tide_semaphore *new_semaphore(VkSemaphore *out) {
  VkExportSemaphoreCreateInfo share = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
                                       .handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
  VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                    .pNext = &share,
                                    .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
  VK(vkCreateSemaphore(device, &info, NULL, out));
  KEEP(Semaphore, *out);
  VkSemaphoreGetFdInfoKHR get = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
                                 .semaphore = *out,
                                 .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
  int fd;
  tide_semaphore *s;
  VK(vkGetSemaphoreFdKHR(device, &get, &fd));
  OK(tide_import_semaphore(&s, fd, true, 0));
  return s;
}

/* ---- drawing ---- */

#include "vulkan_draw.h"

/* Queues the commands; with a semaphore behind the value `wait`, after which it has the value `signal`. */
static void submit(const drawing *d, const VkSemaphore *semaphore, uint64_t wait, uint64_t signal) {
  VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                          .waitSemaphoreValueCount = 1,
                                          .pWaitSemaphoreValues = &wait,
                                          .signalSemaphoreValueCount = 1,
                                          .pSignalSemaphoreValues = &signal};
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                       .pNext = semaphore ? &values : NULL,
                       .waitSemaphoreCount = semaphore != NULL,
                       .pWaitSemaphores = semaphore,
                       .pWaitDstStageMask = &stage,
                       .commandBufferCount = 1,
                       .pCommandBuffers = &d->commands,
                       .signalSemaphoreCount = semaphore != NULL,
                       .pSignalSemaphores = semaphore};
  VK(vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  drawing d = {0};
  piece vertices, texels, texture, indices, pixels, target;
  find_vulkan();
  OK(tide_init(NULL));
  choose_device(argc > 3);
  open_device();

  VkMemoryPropertyFlags kind = shared ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT : MAPPED;
  const int64_t grid[] = {ROWS, COLUMNS, 4}, image[] = {TEXTURE, TEXTURE, 4};
  int64_t pitch[] = {4 * TEXTURE, 4, 1};
  d.vertices = new_buffer(&vertices, (VkDeviceSize)ROWS * COLUMNS * 4 * sizeof(float),
                          VK_BUFFER_USAGE_VERTEX_BUFFER_BIT, kind, shared);
  d.indices = new_buffer(&indices, INDICES * sizeof(uint32_t), VK_BUFFER_USAGE_INDEX_BUFFER_BIT, MAPPED, false);
  d.pixels = new_buffer(&pixels, (VkDeviceSize)4 * WIDTH * HEIGHT, VK_BUFFER_USAGE_TRANSFER_DST_BIT, MAPPED, false);
  d.target =
      new_image(&target, WIDTH, HEIGHT, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT, false);
  VkSubresourceLayout rows = {0};
  if (copies) {
    d.texels = new_buffer(&texels, (VkDeviceSize)4 * TEXTURE * TEXTURE, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, kind, shared);
    d.texture =
        new_image(&texture, TEXTURE, TEXTURE, VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT, false);
  } else {
    VkImageSubresource plane = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0};
    d.texture = new_image(&texture, TEXTURE, TEXTURE, VK_IMAGE_USAGE_SAMPLED_BIT, true);
    vkGetImageSubresourceLayout(device, d.texture, &plane, &rows);
    pitch[0] = (int64_t)rows.rowPitch;
  }
  scene_indices(map(&indices));

  /* One semaphore for both: the first to be acquired waits for it, the last to be released signals it. */
  VkSemaphore semaphore = VK_NULL_HANDLE;
  tide_semaphore *turns = shared ? new_semaphore(&semaphore) : NULL;
  tide_tensor *x = tensor_on(&vertices, 0, grid, NULL, TIDE_FLOAT32, turns, NULL);
  tide_tensor *y = tensor_on(copies ? &texels : &texture, rows.offset, image, pitch, TIDE_UINT8, NULL, turns);

  make_pass(&d);
  make_pipeline(&d);
  VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
  VkCommandPool pool;
  VK(vkCreateCommandPool(device, &pool_info, NULL, &pool));
  KEEP(CommandPool, pool);
  record(&d, pool, true);
  submit(&d, NULL, 0, 0);
  VK(vkQueueWaitIdle(queue));
  record(&d, pool, false);
  scene_open(argc > 2 ? argv[2] : HOST_SCRIPT, x, y);
  double start = now();
  for (int i = 0; i < FRAMES; i++) {
    uint64_t turn = 2 * (uint64_t)i;
    if (shared) OK(tide_external_acquire(x, turn));
    if (shared) OK(tide_external_acquire(y, 0));
    scene_update(i);
    if (shared) OK(tide_external_release(x, 0));
    if (shared) OK(tide_external_release(y, turn + 1));
    submit(&d, shared ? &semaphore : NULL, turn + 1, turn + 2);
    if (!shared) VK(vkQueueWaitIdle(queue));
  }
  VK(vkQueueWaitIdle(queue));
  scene_save(argc > 1 ? argv[1] : "vulkan.png", map(&pixels), now() - start);

  scene_close();
  tide_tensor_release(x), tide_tensor_release(y);
  tide_semaphore_release(turns);
  tide_shutdown();
  destroy_all();
  return 0;
}
