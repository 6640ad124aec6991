"use strict";
// The page shows everything without this script. It adds nicer tooltips, and the buttons and updates of a live page.
(() => {
  const tip = document.getElementById("tip");

  const dress = (root) => {
    for (const title of root.querySelectorAll(".hit > title")) {
      title.parentNode.dataset.tip = title.textContent;
      title.remove();
    }
  };

  const point = (event) => {
    const text = event.target instanceof Element ? event.target.dataset.tip : undefined;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const above = event.clientY - tip.offsetHeight - 14;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = (above > 8 ? above : event.clientY + 18) + "px";
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point); // a finger does not move before it touches
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") tip.hidden = true;
  });
  document.addEventListener("scroll", () => (tip.hidden = true), { capture: true, passive: true });
  dress(document);

  const live = document.getElementById("live");
  if (!live) return;
  const needsToken = live.dataset.needsToken === "yes";
  const token = document.getElementById("token");
  const said = document.getElementById("said");
  for (const form of live.querySelectorAll("form")) form.hidden = false;

  const ago = (seconds) => {
    const [h, m, s] = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map(Math.floor);
    return h ? `${h} h ${m} min` : m ? `${m} min ${s} s` : `${s} s`;
  };

  // A page that was opened with a password in its address cannot fetch relative addresses.
  const at = (path) => location.origin + path;
  const { actions, status: statusPath, page } = live.dataset;
  let heard = null; // the run's last error: shown once, so that it does not overwrite the answer to a button

  const show = (status) => {
    const state = document.getElementById("state");
    if (state.textContent !== status.state) state.textContent = status.state; // it is read out when it is set
    state.className = "badge " + (status.state === "running" ? "good" : status.state === "failed" ? "bad" : "warn");
    if (status.uptime_seconds !== undefined) {
      document.getElementById("uptime").textContent = ago(status.uptime_seconds);
      if (status.last_error !== heard) said.textContent = status.last_error || "";
      heard = status.last_error;
    }
    for (const button of live.querySelectorAll("button")) {
      const { action } = button.dataset;
      button.disabled =
        status.state === "stopping" ||
        (action === "pause" && status.state !== "running") ||
        (action === "resume" && !["paused", "pausing", "retrying", "failed", "stopped"].includes(status.state)) ||
        (["checkpoint", "stop"].includes(action) && status.state === "stopped");
    }
  };

  live.addEventListener("submit", async (event) => {
    event.preventDefault();
    const action = event.submitter ? event.submitter.dataset.action : undefined;
    if (!action) return;
    if (needsToken && !token.value) {
      said.textContent = "Type the token first: api.token of this run.";
      token.focus();
      return;
    }
    if (action === "stop" && !confirm("Stop this run? What it has read is committed first.")) return;
    try {
      // A header takes one byte per character.
      const bytes = String.fromCharCode(...new TextEncoder().encode(token ? token.value : ""));
      const headers = needsToken ? { Authorization: "Bearer " + bytes } : {};
      // Without `omit`, a browser forgets the password of the page when the token is wrong, and the page stands still.
      const answer = await fetch(at(actions + "/" + action), { method: "POST", headers, redirect: "error", credentials: "omit" });
      const told = await answer.json();
      said.textContent = answer.ok ? "" : told.error;
      if (answer.ok) show(told);
    } catch (error) {
      said.textContent = "The run did not answer: it may have ended.";
    }
  });

  const renew = async () => {
    const answer = await fetch(at(page), { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (!fresh) return;
    dress(fresh);
    const old = document.getElementById("main");
    // What somebody has opened, scrolled or focused stays so.
    const found = (element) => element.id && fresh.querySelector("#" + CSS.escape(element.id));
    for (const details of old.querySelectorAll("details[open]")) if (found(details)) found(details).open = true;
    const scrolled = [...old.querySelectorAll(".scroll")].map((e) => [found(e), e.scrollTop, e.scrollLeft]);
    const focused = old.contains(document.activeElement) ? found(document.activeElement) : null;
    old.replaceWith(fresh);
    for (const [element, top, left] of scrolled) if (element) element.scrollTo(left, top);
    if (focused) focused.focus({ preventScroll: true });
  };

  const sequences = (status) =>
    status.targets ? Object.values(status.targets).map((target) => target.sequence).join(" ") : String(status.sequence ?? "");

  let beats = 0;
  const beat = async () => {
    try {
      const status = await (await fetch(at(statusPath))).json();
      show(status);
      const known = document.getElementById("main").dataset;
      beats += 1;
      const isSame = known.sequence === sequences(status) && known.held === String(status.held_files ?? "");
      if (!isSame || beats % 15 === 0) await renew();
    } catch (error) {
      show({ state: "ended" });
      for (const button of live.querySelectorAll("button")) button.disabled = true;
      said.textContent = "The run does not answer any more.";
      return;
    }
    setTimeout(beat, 2000);
  };
  setTimeout(beat, 2000);
})();
