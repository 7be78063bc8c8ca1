// Keys of the tour, and the part of the page its step speaks of: marked, and brought into view once.
const FIELD = "input, textarea, select, [contenteditable=true], [role=slider], [role=combobox], [role=listbox], "
  + "[role=option], [role=radio], [role=tab], [role=dialog], [data-testid=stButtonGroup], [data-testid=stPopoverBody]";
const WAYS = { ArrowRight: "next", ArrowLeft: "back", Escape: "leave" };

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".lab-tour-keys");
  root.stop?.();
  const bar = root.closest(".st-key-lab-tour");
  let shown = "";
  let waiting = false;

  const keyed = (event) => {
    const way = WAYS[event.key];
    if (!way || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest?.(FIELD) || document.querySelector("[data-testid=stPopoverBody], [role=dialog]")) return;
    const button = bar.querySelector(`.st-key-lab-tour-${way} button:not(:disabled)`);
    if (!button) return;
    event.preventDefault();
    button.click();
  };
  // Streamlit draws parts anew, so the mark is set again whenever something was.
  const light = () => {
    waiting = false;
    if (!root.isConnected) return root.stop();
    const part = document.querySelector(data.at);
    for (const old of document.querySelectorAll("[data-lab-lit]")) if (old !== part) old.removeAttribute("data-lab-lit");
    root.dataset.lit = data.step;
    if (!part) return;
    part.setAttribute("data-lab-lit", "");
    if (shown === "whole") return;
    const whole = document.querySelector(".stApp")?.dataset.testScriptState === "notRunning"
      && [...document.querySelectorAll(".lab-chart")].every((chart) => chart.dataset.state === "drawn");
    if (!shown || whole) bring(part);
    shown = whole ? "whole" : "part";
  };
  // The bar and what follows it come to the top. On a phone that is all, for a part far below would take the bar away.
  const bring = (part) => {
    bar.closest(".st-key-lab-stage")?.scrollIntoView({ block: "start" });
    const wide = window.matchMedia("(min-width: 901px)").matches;
    if (wide || part.closest(".st-key-lab-controls")) part.scrollIntoView({ block: "nearest" });
  };
  const changed = new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(light);
  });
  root.stop = () => {
    changed.disconnect();
    document.removeEventListener("keydown", keyed);
    for (const old of document.querySelectorAll("[data-lab-lit]")) old.removeAttribute("data-lab-lit");
  };
  document.addEventListener("keydown", keyed);
  changed.observe(document.querySelector(".stApp") ?? document.body, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["data-test-script-state", "data-state"],
  });
  light();
  return root.stop;
}
