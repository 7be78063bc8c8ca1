// Asks for the next slice of a long computation once this one stands on the screen and the script has
// ended. Earlier would be wrong: a rerun carries the state of every widget, and one that the script has
// just moved, and the browser not yet, would be moved back. A timer and not a frame, which a tab in the
// background would never get.
export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".lab-pulse");
  const beat = String(data.beat);
  if (root.dataset.beat === beat) return;
  root.dataset.beat = beat;
  let quiet = 0;
  (function wait() {
    if (!root.isConnected || root.dataset.beat !== beat) return;
    const state = document.querySelector(".stApp")?.dataset.testScriptState ?? "notRunning";
    quiet = state === "notRunning" ? quiet + 1 : 0;
    if (quiet > 2) setTriggerValue("beat", data.beat);
    else setTimeout(wait, 20);
  })();
}
