// Keeps the address bar at the link of what the page shows, and copies it.
export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".lab-copy");
  const [button, field, said] = ["button", "input", "[role=status]"].map((s) => root.querySelector(s));
  const link = write(data.link);
  root.dataset.link = field.value = link;
  button.onclick = async () => {
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
    said.textContent = data.note ? `${text} ${data.note}` : text;
    clearTimeout(root.timer);
    root.timer = setTimeout(() => (said.textContent = ""), data.note ? 12000 : 4000);
  }
}

// Replaces the history entry, so Back still means the page before. Streamlit's own parameters stay.
function write(query) {
  const embed = [...new URLSearchParams(location.search)].filter(([k]) => k.startsWith("embed"));
  const tail = embed.length ? `&${new URLSearchParams(embed)}` : "";
  const here = `${location.pathname}?${query}${tail}`;
  if (location.pathname + location.search !== here) history.replaceState(history.state, "", here);
  return `${location.origin}${location.pathname}?${query}`;
}
