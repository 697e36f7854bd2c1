// On the page of search results: where nothing is found, names the indexed words that are nearest to those asked for.
(() => {
  const results = document.getElementById("search-results");
  if (!results) return;

  const distance = (a, b) => {
    let row = [...Array(b.length + 1).keys()];
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++)
        next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      row = next;
    }
    return row[b.length];
  };

  const nearest = word => {
    const terms = Object.keys({ ...Search._index.terms, ...Search._index.titleterms });
    return terms.map(term => [distance(word, term), term])
      .filter(([d]) => d <= Math.max(1, Math.floor(word.length / 3)))
      .sort((a, b) => a[0] - b[0]).slice(0, 5).map(([, term]) => term);
  };

  const suggest = () => {
    if (!Search._index || results.querySelector("li") || results.querySelector(".suggestion")) return;
    const query = new URLSearchParams(location.search).get("q") || "";
    const words = query.toLowerCase().split(/[^a-z0-9_]+/).filter(Boolean).flatMap(nearest);
    if (!words.length) return;
    const line = document.createElement("p");
    line.className = "suggestion";
    line.append("Nothing found. Did you mean ");
    words.forEach((word, i) => {
      const link = document.createElement("a");
      link.href = "?q=" + encodeURIComponent(word);
      link.textContent = word;
      line.append(i ? ", " : "", link);
    });
    line.append("?");
    results.append(line);
  };
  // Sphinx writes a summary when its search has ended.
  new MutationObserver(() => {
    const summary = results.querySelector(".search-summary");
    if (summary && /did not match|not match any/.test(summary.textContent)) suggest();
  }).observe(results, { childList: true, subtree: true, characterData: true });
})();
