// Keeps the address that was asked for while a visitor signs in, in this tab alone, and goes back to it: a
// provider sends everybody to the front door.
const KEPT = "reshape-lab-asked";

export default function ({ data }) {
  const here = location.pathname + location.search;
  try {
    const asked = sessionStorage.getItem(KEPT);
    if (!data.inside) {
      if (here !== "/" || !asked) sessionStorage.setItem(KEPT, here); // a failed sign-in comes back to "/"
    } else if (asked) {
      sessionStorage.removeItem(KEPT);
      if (asked !== here) location.replace(location.origin + asked); // joined: never another host's
    }
  } catch {
    // A browser that stores nothing: the visitor starts at the front door.
  }
}
