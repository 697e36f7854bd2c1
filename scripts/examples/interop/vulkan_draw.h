/* vulkan_draw.h: the drawing of vulkan.c, which is Vulkan alone: a pass into an image of its own, and the commands of
 * one frame. Included once, behind vulkan.c's functions of Vulkan. */

typedef struct drawing {
  VkBuffer vertices, indices, pixels;
  VkBuffer texels; /* from which the texture is copied, or null */
  VkImage texture, target;
  VkRenderPass pass;
  VkFramebuffer frame;
  VkPipelineLayout layout;
  VkPipeline pipeline;
  VkDescriptorSet set;
  VkCommandBuffer commands;
} drawing;

static VkShaderModule shader(const uint32_t *words, size_t bytes) {
  VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = words};
  VkShaderModule module;
  VK(vkCreateShaderModule(device, &info, NULL, &module));
  KEEP(ShaderModule, module);
  return module;
}

static void make_pass(drawing *d) {
  VkAttachmentDescription colour = {.format = VK_FORMAT_R8G8B8A8_UNORM,
                                    .samples = VK_SAMPLE_COUNT_1_BIT,
                                    .loadOp = VK_ATTACHMENT_LOAD_OP_CLEAR,
                                    .storeOp = VK_ATTACHMENT_STORE_OP_STORE,
                                    .finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL};
  VkAttachmentReference to = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription sub = {.colorAttachmentCount = 1, .pColorAttachments = &to};
  VkSubpassDependency after = {.dstSubpass = VK_SUBPASS_EXTERNAL,
                               .srcStageMask = VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
                               .dstStageMask = VK_PIPELINE_STAGE_TRANSFER_BIT,
                               .srcAccessMask = VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT};
  VkRenderPassCreateInfo info = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO,
                                 .attachmentCount = 1,
                                 .pAttachments = &colour,
                                 .subpassCount = 1,
                                 .pSubpasses = &sub,
                                 .dependencyCount = 1,
                                 .pDependencies = &after};
  VK(vkCreateRenderPass(device, &info, NULL, &d->pass));
  KEEP(RenderPass, d->pass);
  VkImageView view = view_of(d->target);
  VkFramebufferCreateInfo frame = {.sType = VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO,
                                   .renderPass = d->pass,
                                   .attachmentCount = 1,
                                   .pAttachments = &view,
                                   .width = WIDTH,
                                   .height = HEIGHT,
                                   .layers = 1};
  VK(vkCreateFramebuffer(device, &frame, NULL, &d->frame));
  KEEP(Framebuffer, d->frame);
}

/* The texture for the fragment shader: nearest, since a linear image need not be filtered. */
static void make_set(drawing *d, VkDescriptorSetLayout *layout) {
  VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
                                          .descriptorCount = 1,
                                          .stageFlags = VK_SHADER_STAGE_FRAGMENT_BIT};
  VkDescriptorSetLayoutCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
  VK(vkCreateDescriptorSetLayout(device, &info, NULL, layout));
  KEEP(DescriptorSetLayout, *layout);
  VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 1};
  VkDescriptorPoolCreateInfo pool_info = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
  VkDescriptorPool pool;
  VK(vkCreateDescriptorPool(device, &pool_info, NULL, &pool));
  KEEP(DescriptorPool, pool);
  VkDescriptorSetAllocateInfo take = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                      .descriptorPool = pool,
                                      .descriptorSetCount = 1,
                                      .pSetLayouts = layout};
  VK(vkAllocateDescriptorSets(device, &take, &d->set));
  VkSamplerCreateInfo sampler_info = {.sType = VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO,
                                      .addressModeU = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE,
                                      .addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE};
  VkDescriptorImageInfo image = {.imageView = view_of(d->texture), .imageLayout = VK_IMAGE_LAYOUT_GENERAL};
  VK(vkCreateSampler(device, &sampler_info, NULL, &image.sampler));
  KEEP(Sampler, image.sampler);
  VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                .dstSet = d->set,
                                .descriptorCount = 1,
                                .descriptorType = VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER,
                                .pImageInfo = &image};
  vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
}

static void make_pipeline(drawing *d) {
  VkDescriptorSetLayout sets;
  make_set(d, &sets);
  VkPushConstantRange grid = {VK_SHADER_STAGE_VERTEX_BIT, 0, 2 * sizeof(int32_t)};
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &sets,
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &grid};
  VK(vkCreatePipelineLayout(device, &layout, NULL, &d->layout));
  KEEP(PipelineLayout, d->layout);
  VkPipelineShaderStageCreateInfo stages[2] = {{.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                .stage = VK_SHADER_STAGE_VERTEX_BIT,
                                                .module = shader(grid_vert, sizeof grid_vert),
                                                .pName = "main"},
                                               {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                .stage = VK_SHADER_STAGE_FRAGMENT_BIT,
                                                .module = shader(grid_frag, sizeof grid_frag),
                                                .pName = "main"}};
  VkVertexInputBindingDescription binding = {0, 4 * sizeof(float), VK_VERTEX_INPUT_RATE_VERTEX};
  VkVertexInputAttributeDescription position = {0, 0, VK_FORMAT_R32G32B32A32_SFLOAT, 0};
  VkPipelineVertexInputStateCreateInfo input = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO,
                                                .vertexBindingDescriptionCount = 1,
                                                .pVertexBindingDescriptions = &binding,
                                                .vertexAttributeDescriptionCount = 1,
                                                .pVertexAttributeDescriptions = &position};
  VkPipelineInputAssemblyStateCreateInfo triangles = {.sType =
                                                          VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO,
                                                      .topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST};
  VkViewport port = {0, 0, WIDTH, HEIGHT, 0, 1};
  VkRect2D all = {{0, 0}, {WIDTH, HEIGHT}};
  VkPipelineViewportStateCreateInfo view = {.sType = VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO,
                                            .viewportCount = 1,
                                            .pViewports = &port,
                                            .scissorCount = 1,
                                            .pScissors = &all};
  VkPipelineRasterizationStateCreateInfo raster = {.sType = VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO,
                                                   .lineWidth = 1};
  VkPipelineMultisampleStateCreateInfo samples = {.sType = VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO,
                                                  .rasterizationSamples = VK_SAMPLE_COUNT_1_BIT};
  VkPipelineColorBlendAttachmentState plain = {.colorWriteMask = 15};
  VkPipelineColorBlendStateCreateInfo blend = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO, .attachmentCount = 1, .pAttachments = &plain};
  VkGraphicsPipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO,
                                       .stageCount = 2,
                                       .pStages = stages,
                                       .pVertexInputState = &input,
                                       .pInputAssemblyState = &triangles,
                                       .pViewportState = &view,
                                       .pRasterizationState = &raster,
                                       .pMultisampleState = &samples,
                                       .pColorBlendState = &blend,
                                       .layout = d->layout,
                                       .renderPass = d->pass};
  VK(vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &d->pipeline));
  KEEP(Pipeline, d->pipeline);
}

/* What is shared goes from the other side to this queue, or back: the vertices, and the texels or the texture itself,
 * which stays in the layout GENERAL, but for its first time. */
static void hand_over(drawing *d, bool to_us, VkImageLayout from) {
  uint32_t other = shared ? VK_QUEUE_FAMILY_EXTERNAL : family;
  VkAccessFlags reads =
      VK_ACCESS_VERTEX_ATTRIBUTE_READ_BIT | (copies ? VK_ACCESS_TRANSFER_READ_BIT : VK_ACCESS_SHADER_READ_BIT);
  VkBufferMemoryBarrier buffer = {.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER,
                                  .srcAccessMask = to_us ? VK_ACCESS_MEMORY_WRITE_BIT : 0,
                                  .dstAccessMask = to_us ? reads : 0,
                                  .srcQueueFamilyIndex = to_us ? other : family,
                                  .dstQueueFamilyIndex = to_us ? family : other,
                                  .buffer = d->vertices,
                                  .size = VK_WHOLE_SIZE};
  VkBufferMemoryBarrier buffers[] = {buffer, buffer};
  buffers[1].buffer = d->texels;
  VkImageMemoryBarrier image = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                .srcAccessMask = buffer.srcAccessMask,
                                .dstAccessMask = buffer.dstAccessMask,
                                .oldLayout = from,
                                .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                .srcQueueFamilyIndex = buffer.srcQueueFamilyIndex,
                                .dstQueueFamilyIndex = buffer.dstQueueFamilyIndex,
                                .image = d->texture,
                                .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
  VkPipelineStageFlags uses = VK_PIPELINE_STAGE_VERTEX_INPUT_BIT |
                              (copies ? VK_PIPELINE_STAGE_TRANSFER_BIT : VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT);
  vkCmdPipelineBarrier(d->commands, to_us ? VK_PIPELINE_STAGE_ALL_COMMANDS_BIT : uses,
                       to_us ? uses : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0, 0, NULL, copies ? 2 : 1, buffers,
                       copies ? 0 : 1, &image);
}

/* The texels to the texture, behind what the frame before has read of it and before what this one reads. */
static void copy_texture(drawing *d) {
  VkBufferImageCopy all = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                           .imageExtent = {TEXTURE, TEXTURE, 1}};
  VkImageMemoryBarrier image = {.sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
                                .dstAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                                .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
                                .newLayout = VK_IMAGE_LAYOUT_GENERAL,
                                .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
                                .image = d->texture,
                                .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1}};
  vkCmdPipelineBarrier(d->commands, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0, NULL,
                       0, NULL, 1, &image);
  vkCmdCopyBufferToImage(d->commands, d->texels, d->texture, VK_IMAGE_LAYOUT_GENERAL, 1, &all);
  image.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  image.dstAccessMask = VK_ACCESS_SHADER_READ_BIT;
  image.oldLayout = VK_IMAGE_LAYOUT_GENERAL;
  vkCmdPipelineBarrier(d->commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, 0, 0, NULL,
                       0, NULL, 1, &image);
}

static void draw(drawing *d) {
  const int32_t grid[] = {COLUMNS, ROWS};
  VkClearValue dark = {.color = {.float32 = {0.02F, 0.03F, 0.08F, 1}}};
  VkRenderPassBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO,
                                 .renderPass = d->pass,
                                 .framebuffer = d->frame,
                                 .renderArea = {{0, 0}, {WIDTH, HEIGHT}},
                                 .clearValueCount = 1,
                                 .pClearValues = &dark};
  VkDeviceSize start = 0;
  vkCmdBeginRenderPass(d->commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
  vkCmdBindPipeline(d->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, d->pipeline);
  vkCmdBindVertexBuffers(d->commands, 0, 1, &d->vertices, &start);
  vkCmdBindIndexBuffer(d->commands, d->indices, 0, VK_INDEX_TYPE_UINT32);
  vkCmdBindDescriptorSets(d->commands, VK_PIPELINE_BIND_POINT_GRAPHICS, d->layout, 0, 1, &d->set, 0, NULL);
  vkCmdPushConstants(d->commands, d->layout, VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof grid, grid);
  vkCmdDrawIndexed(d->commands, INDICES, 1, 0, 0, 0);
  vkCmdEndRenderPass(d->commands);
}

/* One frame, recorded once; `first`: what comes before all frames instead. */
static void record(drawing *d, VkCommandPool pool, bool first) {
  VkCommandBufferAllocateInfo take = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = pool, .commandBufferCount = 1};
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
  VK(vkAllocateCommandBuffers(device, &take, &d->commands));
  VK(vkBeginCommandBuffer(d->commands, &begin));
  if (first) {
    hand_over(d, false, shared ? VK_IMAGE_LAYOUT_UNDEFINED : VK_IMAGE_LAYOUT_PREINITIALIZED);
  } else {
    VkBufferImageCopy all = {.imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
                             .imageExtent = {WIDTH, HEIGHT, 1}};
    hand_over(d, true, VK_IMAGE_LAYOUT_GENERAL);
    if (copies) copy_texture(d);
    draw(d);
    hand_over(d, false, VK_IMAGE_LAYOUT_GENERAL);
    vkCmdCopyImageToBuffer(d->commands, d->target, VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, d->pixels, 1, &all);
  }
  VK(vkEndCommandBuffer(d->commands));
}
