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

  document.addEventListener("pointermove", (event) => {
    const text = event.target instanceof Element ? event.target.dataset.tip : undefined;
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const above = event.clientY - tip.offsetHeight - 14;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = (above > 8 ? above : event.clientY + 18) + "px";
  });
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
  let heard = null; // the run's last error: shown once, so that it does not overwrite the answer to a button

  const show = (status) => {
    const state = document.getElementById("state");
    state.textContent = status.state;
    state.className = "badge " + (status.state === "running" ? "good" : "warn");
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
        (action === "resume" && status.state !== "paused");
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
      const answer = await fetch(at("/" + action), { method: "POST", headers, redirect: "error" });
      const told = await answer.json();
      said.textContent = answer.ok ? "" : told.error;
      if (answer.ok) show(told);
    } catch (error) {
      said.textContent = "The run did not answer: it may have ended.";
    }
  });

  const renew = async () => {
    const answer = await fetch(at("/"), { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (!fresh) return;
    dress(fresh);
    document.getElementById("main").replaceWith(fresh);
  };

  let beats = 0;
  const beat = async () => {
    try {
      const status = await (await fetch(at("/status"))).json();
      show(status);
      const known = document.getElementById("main").dataset.sequence;
      beats += 1;
      if (known !== String(status.sequence) || beats % 15 === 0) await renew();
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
