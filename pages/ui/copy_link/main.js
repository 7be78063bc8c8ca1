// Keeps the address bar at the link of what the page shows, and copies it. The page says its link in an element
// of the same container, `.lab-link`, which is written anew when a control has moved.
export default function ({ parentElement }) {
  const root = parentElement.querySelector(".lab-copy");
  const [button, field, said] = ["button", "input", "[role=status]"].map((s) => root.querySelector(s));
  const other = root.closest(".st-key-lab-other-link"); // a link that is not the page's own
  const place = other ?? root.closest(".st-key-lab-share") ?? document.body;
  let query;
  let note = "";
  root.dataset.link = ""; // until the page has said it

  const read = () => {
    const at = place.querySelector(".lab-link");
    if (!at || (at.dataset.link === query && at.dataset.note === note)) return;
    ({ link: query, note } = at.dataset);
    root.dataset.link = field.value = `${location.origin}${location.pathname}?${query}`;
    if (!other) whenIdle(write); // writing the address takes 10 ms, which the picture shall not wait for
  };
  // Replaces the history entry, so Back still means the page before. Streamlit's own parameters stay.
  const write = () => {
    if (!root.isConnected) return; // the reader has gone to another page
    const embed = [...new URLSearchParams(location.search)].filter(([k]) => k.startsWith("embed"));
    const tail = embed.length ? `&${new URLSearchParams(embed)}` : "";
    const here = `${location.pathname}?${query}${tail}`;
    if (location.pathname + location.search !== here) history.replaceState(history.state, "", here);
  };
  const seen = new MutationObserver(read);
  seen.observe(place, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-link"] });
  read();

  button.onclick = async () => {
    const link = field.value;
    try {
      await navigator.clipboard.writeText(link);
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
    said.textContent = note ? `${text} ${note}` : text;
    clearTimeout(root.timer);
    root.timer = setTimeout(() => (said.textContent = ""), note ? 12000 : 4000);
  }
  return () => seen.disconnect();
}

function whenIdle(action) {
  if (window.requestIdleCallback) requestIdleCallback(action, { timeout: 500 });
  else setTimeout(action, 200);
}
