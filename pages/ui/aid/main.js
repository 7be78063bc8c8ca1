// For those who use a keyboard, a screen reader or a phone: what Streamlit's own markup lacks is mended after
// every change, the new sentence is spoken once a control has moved, and the controls of a narrow screen open
// and close.
const MENDED_AFTER = 80; // milliseconds of quiet
const SPOKEN_AFTER = 600; // one sentence for a slider that is moved ten steps

const ends = new WeakMap(); // element -> what undoes it: a rerun calls again for the same element

export default function ({ parentElement }) {
  const root = parentElement.querySelector(".lab-aid");
  if (!ends.has(root)) ends.set(root, begin(root));
  return () => {
    ends.get(root)?.();
    ends.delete(root);
  };
}

function begin(root) {
  const status = root.querySelector("[role=status]");
  let said; // of the page as it stands
  let moved = false;
  let soon;
  let later;

  const changed = () => {
    clearTimeout(soon);
    clearTimeout(later);
    soon = setTimeout(() => (mend(), enter()), MENDED_AFTER);
    later = setTimeout(speak, SPOKEN_AFTER);
  };
  const speak = () => {
    if (document.querySelector(".stApp")?.dataset.testScriptState === "running") return changed();
    const text = sentence();
    if (!text) return;
    if (moved && said !== undefined && text !== said) {
      status.textContent = text;
      moved = false;
    }
    said = text;
  };
  const touched = (event) => {
    if (!event.target.closest?.(".st-key-lab-controls, .st-key-lab-scenarios, .st-key-lab-tabs, .lab-chart-plot")) return;
    said ??= sentence() || undefined; // somebody may be quicker than the first quiet
    moved = true;
  };
  const pressed = (event) => {
    const button = event.target.closest?.(".lab-drawer, .lab-skip");
    if (button?.className === "lab-drawer") toggle(button);
    else if (button) document.querySelector(".st-key-lab-stage .lab-chart-plot")?.focus();
  };

  const seen = new MutationObserver(changed);
  seen.observe(document.body, { childList: true, subtree: true, characterData: true });
  const ears = new AbortController();
  for (const kind of ["pointerdown", "keydown", "input"]) document.addEventListener(kind, touched, { capture: true, signal: ears.signal });
  document.addEventListener("click", pressed, { signal: ears.signal });
  window.addEventListener("resize", changed, { signal: ears.signal });
  changed();
  return () => {
    clearTimeout(soon);
    clearTimeout(later);
    seen.disconnect();
    ears.abort();
  };
}

// What to look for, as it is read aloud: formulas once, not as picture and as markup.
function sentence() {
  return [...document.querySelectorAll(".lab-look")]
    .map((look) => {
      const copy = look.cloneNode(true);
      copy.querySelectorAll(".katex-mathml").forEach((e) => e.remove());
      return copy.textContent.replace(/\s+/g, " ").trim();
    })
    .filter(Boolean)
    .join(" ");
}

function mend() {
  // What scrolls sideways can be scrolled by keyboard, and has a name while it can.
  for (const [selector, label] of [[".katex-display", "Equation"], [".lab-scroll", "Table"], [".lab-prompt", "Prompt"], [".st-key-lab-controls", "Controls"]]) {
    for (const box of document.querySelectorAll(selector)) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      const name = box.querySelector("caption")?.textContent || label;
      attribute(box, "tabindex", scrolls && selector !== ".st-key-lab-controls" ? "0" : null);
      attribute(box, "role", scrolls || label === "Controls" ? "group" : null);
      attribute(box, "aria-label", scrolls || label === "Controls" ? name : null);
    }
  }
  // A list whose items stand in groups is none to a screen reader: what remains is links under a navigation.
  document.querySelectorAll("[data-testid=stSidebarNavItems], [data-testid=stSidebarNavItems] li").forEach((e) => attribute(e, "role", "none"));
}

// A menu that opens stands at the end of the document, far from its button for those who go on by keyboard: the
// focus goes into it, and back to the button when it closes.
let opener;

function enter() {
  const menu = document.querySelector("[data-testid=stPopoverBody]");
  const here = document.activeElement;
  if (menu && here?.closest(".stPopover") && !menu.contains(here)) {
    const first = menu.querySelector("button, a[href], input") ?? (menu.textContent.trim() ? menu : null);
    if (!first || opener === here) return;
    opener = here;
    if (first === menu) menu.tabIndex = -1;
    first.focus();
  } else if (!menu && opener) {
    if (here === document.body) opener.focus();
    opener = undefined;
  }
}

function attribute(element, name, value) {
  if (element.getAttribute(name) === value) return;
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

// On a narrow screen: the controls come and go at the foot of the window, the picture stands above them.
function toggle(button) {
  const panel = button.closest(".st-key-lab-controls");
  const open = panel.dataset.open === undefined;
  if (open) panel.dataset.open = "";
  else delete panel.dataset.open;
  button.setAttribute("aria-expanded", String(open));
  const chart = document.querySelector(".st-key-lab-stage .lab-chart");
  if (open && chart && chart.getBoundingClientRect().bottom > panel.getBoundingClientRect().top) {
    chart.scrollIntoView({ block: "start" });
  }
}
