#!/usr/bin/env bash
# Opens every page of the site in Chromium, 390 and 1280 pixels wide, and fails if one scrolls sideways. Then asks the
# search for a word of the text and for a misspelt one. Ends with 77 where there is no Chromium or no site.
# usage: browser.sh FOLDER      (the one that site.sh has written to)
set -eu
html=$(realpath "$1")/html
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ] || [ ! -e "$html/index.html" ]; then
  echo "browser: skipped: no Chromium, or no site in $html" >&2
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{
  echo '<!doctype html><body><script>const pages = ['
  (cd "$html" && find . -name '*.html' ! -name genindex.html ! -name browser_check.html ! -path './_static/*' -printf '"%P",\n')
  cat <<'PAGE'
];
const wait = ms => new Promise(done => setTimeout(done, ms));
const load = (frame, url) => new Promise(done => { frame.onload = done; frame.src = url; });
(async () => {
  const out = [], frame = document.body.appendChild(document.createElement("iframe"));
  for (const width of [390, 1280]) {
    frame.style = `width: ${width}px; height: 900px; border: 0`;
    for (const page of pages) {
      await load(frame, page);
      const wide = frame.contentDocument.documentElement.scrollWidth;
      if (wide > width) out.push(`WIDE ${page} is ${wide} pixels wide in a window of ${width}`);
    }
  }
  for (const [query, what] of [["broadcast", "li"], ["brodcast", ".suggestion a"]]) {
    await load(frame, "search.html?q=" + query);
    for (let i = 0; i < 100 && !frame.contentDocument.querySelector("#search-results " + what); i++) await wait(100);
    if (!frame.contentDocument.querySelector("#search-results " + what)) out.push(`WIDE the search for ${query} gives no ${what}`);
  }
  document.body.innerHTML = `<pre>CHECKED ${pages.length}\n${out.join("\n")}\n</pre>`;
})();
</script>
PAGE
} >"$html/browser_check.html"
trap 'rm -rf "$work" "$html/browser_check.html"' EXIT

# As root, in containers, Chromium has no sandbox of its own; the pages are ours.
"$chromium" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --allow-file-access-from-files \
  --user-data-dir="$work/profile" --virtual-time-budget=600000 --timeout=500000 --dump-dom "file://$html/browser_check.html" \
  >"$work/dom" 2>"$work/log" || { cat "$work/log" >&2 && exit 1; }
grep -q '^.*CHECKED' "$work/dom" || { echo "browser: the check has not ended" >&2 && cat "$work/log" >&2 && exit 1; }
grep -o 'CHECKED [0-9]*' "$work/dom"
if grep '^WIDE' "$work/dom" >&2; then exit 1; fi
