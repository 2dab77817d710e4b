"use strict";
// The server draws; this asks for the page again and takes over what changed, so that what is
// shown with and without a script is the same.
(() => {
  const EVERY_MS = 2000;
  const button = document.getElementById("pause");
  const note = document.getElementById("freshness");
  let isPaused = false;
  let timer = 0;

  const take = (fresh) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && part.innerHTML !== other.innerHTML && !part.contains(document.activeElement)) {
        part.replaceChildren(...document.importNode(other, true).childNodes);
      }
    }
  };

  const look = async () => {
    window.clearTimeout(timer);
    if (isPaused) return;
    if (!document.hidden) {
      try {
        const answer = await fetch("/", { headers: { Accept: "text/html" }, cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        take(new DOMParser().parseFromString(await answer.text(), "text/html"));
        note.textContent = "";
      } catch {
        // Said once: a screen reader would read it out again and again.
        const told = "No answer from the sidecar: these figures are old.";
        if (note.textContent !== told) note.textContent = told;
      }
    }
    timer = window.setTimeout(look, EVERY_MS);
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Go on" : "Pause";
    note.textContent = isPaused ? "Paused" : "";
    look();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  timer = window.setTimeout(look, EVERY_MS);
})();
