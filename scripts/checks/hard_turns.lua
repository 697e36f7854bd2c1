-- hard_turns.lua: turns of speech that make a sentence hard, for turns.lua and scripts/docs/text.lua.
return { "so many", "as many", "likewise", "for ever", "whoever", "whatever", "what is told", "told", "lets go", "let go", "puts off",
  "put off", "stands for", "lies in", "lie beside", "goes through", "in vain", "of which", "by which", "in which", "those that", "that of",
  "the one that", "which of", "is no more than", "has it that", "as ever" }
