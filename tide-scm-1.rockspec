-- `luarocks make` in the source tree: the module, with all of tide inside it, and the runner. scripts/rock builds both.
rockspec_format = "3.0"
package = "tide"
version = "scm-1"
source = { url = "git+https://tide.invalid/tide.git" }
description = {
  summary = "Embeddable Lua runtime for GPU work",
  detailed = "Tensors on the CPU, on NVIDIA GPUs and on simulated ones.",
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = { "lua ~> 5.4" }
build = {
  type = "command",
  build_command = "scripts/rock build '$(LUA_INCDIR)'",
  install_command = "scripts/rock install '$(PREFIX)'",
}
