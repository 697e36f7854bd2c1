#version 450
layout(location = 0) in vec4 position;
layout(location = 0) out vec2 uv;
layout(push_constant) uniform Grid { ivec2 grid; };
void main() {
  uv = vec2(gl_VertexIndex % grid.x, gl_VertexIndex / grid.x) / vec2(grid - 1);
  gl_Position = vec4(position.x, -position.y, position.zw);
}
