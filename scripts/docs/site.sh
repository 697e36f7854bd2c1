#!/usr/bin/env bash
# Builds the manual as a static site: FOLDER/source gets the pages, those written here and those of the reference and the
# gallery, FOLDER/html the site. Ends with 77 where Sphinx, MyST or
# Furo is missing: scripts/setup --docs installs them.
# usage: site.sh TIDE FOLDER
set -eu
tide=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$(realpath "$0")")/../.."

# Debian's packages are for Debian's Python, which need not be the first one in PATH.
python=
for each in /usr/bin/python3 python3; do
  if "$each" -c 'import sphinx, myst_parser, furo' 2>/dev/null; then python=$each && break; fi
done
if [ -z "$python" ]; then
  echo "site: skipped: Sphinx, MyST or Furo is missing; scripts/setup --docs installs them" >&2
  exit 77
fi

rm -rf "$folder/source" "$folder/html"
cp -r scripts/docs/manual "$folder/source"
cp SCOPE.md "$folder/source/"
# The sections of that page, without the tables that put two blocks side by side.
sed -n '/^## /,$p' scripts/examples/reference/README.md | sed -E '/^<\/?t(able|r|d|h)>/d' >"$folder/source/torch_reference.md"
"$tide" scripts/docs/reference.lua "$folder"
mv "$folder"/reference/*.md "$folder/source/reference/"
rmdir "$folder/reference"
mapfile -t drawing < <(grep -rlE '"[a-z_0-9]+\.(png|gif)"' scripts/docs/manual --include='*.md')
"$tide" scripts/docs/code.lua --pictures "$folder/source/pictures" "${drawing[@]}"
cp scripts/docs/cloth.png scripts/bench/growth.png scripts/examples/game/game.png scripts/examples/interop/surface.png "$folder/source/pictures/"
"$tide" scripts/docs/gallery.lua "$folder/source"
"$python" -m sphinx -q -W --keep-going -b html -d "$folder/doctrees" "$folder/source" "$folder/html"
echo "site: $folder/html/index.html"
