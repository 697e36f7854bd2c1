# Writes a text of C++ that kernels are made of at run time as macros of C, without its comments and indentation. A line
# `//@ name` begins the text of the macro TEXT_name; a file without any is one text, named by the file.
# usage: cmake -DIN=FILE -DOUT=FILE -P tide_text.cmake
cmake_minimum_required(VERSION 3.22)
file(READ ${IN} text)
if(NOT text MATCHES "(^|\n)//@ ")
  get_filename_component(name ${IN} NAME_WE)
  string(PREPEND text "//@ ${name}\n")
endif()
string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" "" text "${text}")
string(REGEX REPLACE "[ \t]*\n[ \t\n]*" "\n" text "\n${text}\n")
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\" \\\n\"" text "${text}")
string(REGEX REPLACE "\"//@ ([a-z0-9_]+)\\\\n\" \\\\\n" "\"\"\n#define TEXT_\\1 \\\\\n" text "\"${text}\"")
string(FIND "${text}" "#define" begin)
string(SUBSTRING "${text}" ${begin} -1 text)
file(WRITE ${OUT} "${text}\n")
