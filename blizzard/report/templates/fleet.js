"use strict";
// The page shows everything, and its buttons work, without this script. It keeps the page up to date.
(() => {
  const live = document.getElementById("live");
  const needsToken = live.dataset.needsToken === "yes";
  const token = document.getElementById("token");
  const said = document.getElementById("said");
  // A page that was opened with a password in its address cannot fetch relative addresses.
  const at = (path) => location.origin + path;

  const dress = (root) => {
    for (const form of root.querySelectorAll("form")) form.hidden = false;
  };
  dress(document);

  const renew = async () => {
    const answer = await fetch(at("/"), { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (document.querySelector("#main :active")) return; // a button that is pressed and replaced would do nothing
    const main = fresh.getElementById("main");
    dress(main);
    const focused = document.activeElement ? document.activeElement.id : "";
    document.getElementById("main").replaceWith(main);
    const again = focused && main.querySelector("#" + CSS.escape(focused));
    if (again) again.focus({ preventScroll: true });
    const state = fresh.getElementById("state");
    document.getElementById("state").replaceWith(state);
  };

  document.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { action, pipeline } = event.submitter ? event.submitter.dataset : {};
    if (!action) return;
    if (needsToken && !token.value) {
      said.textContent = "Type the token first: api.token of this fleet.";
      token.focus();
      return;
    }
    if (action === "stop" && !confirm(`Stop ${pipeline}? What it has read is committed first.`)) return;
    try {
      // A header takes one byte per character.
      const bytes = String.fromCharCode(...new TextEncoder().encode(token ? token.value : ""));
      const headers = needsToken ? { Authorization: "Bearer " + bytes } : {};
      const path = `/pipelines/${encodeURIComponent(pipeline)}/${action}`;
      const answer = await fetch(at(path), { method: "POST", headers, redirect: "error" });
      const told = await answer.json();
      said.textContent = answer.ok ? "" : told.error;
      await renew();
    } catch (error) {
      said.textContent = "The process did not answer: it may have ended.";
    }
  });

  // A restart is how a fleet gets another configuration, so the page waits for the next process.
  let isSilent = false;
  const beat = async () => {
    try {
      await renew();
      if (isSilent) said.textContent = "";
      isSilent = false;
    } catch (error) {
      isSilent = true;
      const state = document.getElementById("state");
      state.textContent = "no answer";
      state.className = "badge warn";
      for (const button of document.querySelectorAll("button")) button.disabled = true;
      said.textContent = "The process does not answer: it may have ended. This page goes on once it is there again.";
    }
    setTimeout(beat, 3000);
  };
  setTimeout(beat, 3000);
})();
