#!/usr/bin/env bash
# What scripts/release refuses, in clones of this tree, and then its files, made from a build tree for the tests of each.
# usage: release.sh BUILD FOLDER
set -eu
build=$(realpath "$1") folder=$2
version=$(sed -n 's/^#define TIDE_VERSION  *"\(.*\)"$/\1/p' core/include/tide/tide.h)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# refuses WORDS ARGUMENTS...: it ends with an error of those words, in the clone, and leaves no file.
refuses() {
  local words=$1
  shift
  if "$dir/clone/scripts/release" --from "$build" "$@" --to "$dir/made" >"$dir/log" 2>&1; then
    echo "release: scripts/release $* was not refused, expected '$words'" && exit 1
  fi
  grep -qF -- "$words" "$dir/log" || { echo "release: scripts/release $* does not say '$words' but:" && cat "$dir/log" && exit 1; }
  [ ! -e "$dir/made" ] || { echo "release: scripts/release $* was refused, and wrote" && exit 1; }
}
commit() {
  git -C "$dir/clone" add -A
  git -C "$dir/clone" -c user.name=tide -c user.email=tide@tide.invalid commit -q --allow-empty --no-gpg-sign -m "$1"
}
without=--without-cuda
[ ! -e "$build/lib/libtide_cuda.so" ] || without=
if git rev-parse --git-dir >/dev/null 2>&1; then
  git clone -q --shared . "$dir/clone"
  # The files as they are here, committed or not.
  for file in scripts/release scripts/checks/abi.lua scripts/checks/abi.txt CHANGELOG.md core/include/tide/tide.h; do cp $file "$dir/clone/$file"; done
  changelog=$dir/clone/CHANGELOG.md
  sed -i "0,/^## .*/s//## $version, 2001-01-01/" "$changelog"
  commit "a release"
  refuses "the version is '9.9.9'" 9.9.9
  refuses "'/nowhere' is no build tree" "$version" --from /nowhere
  sed -i '/^function tide_init /d' "$dir/clone/scripts/checks/abi.txt"
  commit "an old record"
  refuses "abi.txt is of $version, or lacks additions" "$version" $without
  touch "$dir/clone/new"
  refuses "changes that are not committed: new" "$version"
  rm "$dir/clone/new"
  sed -i "0,/^## .*/s//## $version, not released yet/" "$changelog"
  commit "not yet"
  refuses "CHANGELOG.md says '$version, not released yet'" "$version"
  sed -i "0,/^## .*/s//## 9.9.9, 2001-01-01/" "$changelog"
  commit "another"
  refuses "the first section of CHANGELOG.md is '9.9.9" "$version"
else
  echo "release: this is no clone, so that what is refused is not tested"
fi

scripts/release "$version" --from "$build" --to "$folder" --try

# The pages name these files.
install=scripts/docs/manual/start/install.md
for file in "$folder"/tide*; do
  grep -qF "\`${file##*/}\`" $install || { echo "release: $install does not name ${file##*/}" && exit 1; }
done
for page in README.md scripts/docs/manual/embed/python.md; do
  grep -qF "pip install tide-$version-*.whl" $page || { echo "release: $page does not install tide-$version-*.whl" && exit 1; }
done
