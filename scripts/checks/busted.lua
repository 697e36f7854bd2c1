-- Runs busted inside the tide runner: tide scripts/checks/busted.lua [options] spec
require "busted.runner" { standalone = false }
