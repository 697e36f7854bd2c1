/* tree.h: trees of tensors: a tensor, or tables of them to any depth, with other values in between. */
#ifndef LTIDE_TREE_H
#define LTIDE_TREE_H

#include "bindings.h"

/* Pushes what stands for the tensor x, which is at `index`, in the copy of the tree. */
typedef void (*ltide_leaf_fn)(lua_State *L, void *user, int index, tide_tensor *x);
/* Pushes a copy of the value at index: tables are made anew with their metatables, tensors go through `leaf` once each,
 * other values are kept. What is shared, or refers to itself, is so in the copy. */
void ltide_map_tree(lua_State *L, ltide_state *S, int index, ltide_leaf_fn leaf, void *user);

#endif
