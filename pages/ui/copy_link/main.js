// A button that copies this page's address with every control written out.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".lab-copy");
  const [button, field, said] = ["button", "input", "[role=status]"].map((s) => root.querySelector(s));
  const address = () => `${location.origin}${location.pathname}?${data.link}`;
  tidy(data, !root.dataset.link);
  root.dataset.link = address();
  field.value = address();
  button.onclick = async () => {
    const text = address();
    try {
      await navigator.clipboard.writeText(text);
      say("Link copied.");
    } catch {
      // Plain http on another host has no clipboard: show the link, selected, ready for Ctrl+C.
      field.hidden = false;
      field.select();
      const copied = document.execCommand("copy");
      if (copied) field.hidden = true;
      say(copied ? "Link copied." : "Press Ctrl+C to copy.");
    }
  };
  function say(text) {
    said.textContent = data.note ? `${text} ${data.note}` : text;
    clearTimeout(root.timer);
    root.timer = setTimeout(() => (said.textContent = ""), data.note ? 12000 : 4000);
  }
}

// The address bar holds what differs from the defaults; `v` says from which defaults, and a value the page
// could not use gives way to the one it shows. Replacing the history entry, unlike a query parameter set from
// Python, leaves the Back button alone.
function tidy({ link, version }, first) {
  const shown = new URLSearchParams(link);
  const here = new URLSearchParams(location.search);
  const kept = [...here.keys()].filter((k) => first && k !== "v" && shown.has(k) && shown.get(k) !== here.get(k));
  if (here.get("v") === String(version) && !kept.length) return;
  for (const k of kept) here.set(k, shown.get(k));
  here.delete("v");
  const query = new URLSearchParams([["v", version], ...here]);
  history.replaceState(history.state, "", `${location.pathname}?${query}`);
}
