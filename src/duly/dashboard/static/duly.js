// The little that needs a script: live looks, charts, keys, relative times. Every page works without it.
"use strict";
(() => {
  const root = document.querySelector('meta[name="duly-root"]').content;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- relative times go on while a page is open
  const span = (seconds) => {
    const s = Math.abs(seconds);
    if (s < 0.9995) return `${Math.round(s * 1000)}ms`;
    if (s < 59.95) return `${s.toFixed(1)}s`;
    if (s < 3600) return `${Math.floor(s / 60)}m ${Math.floor(s % 60)}s`;
    const minutes = Math.round(s / 60);
    if (s < 86400) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
    return `${Math.floor(minutes / 1440)}d ${Math.floor(minutes / 60) % 24}h`;
  };
  let skew = 0; // the server's clock minus the browser's, so that nobody's wrong clock shows
  const tickTimes = () => {
    const now = Date.now() + skew;
    for (const time of $$("time[datetime]")) {
      const away = (Date.parse(time.dateTime) - now) / 1000;
      const text = away > 0 ? `in ${span(away)}` : `${span(away)} ago`;
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(tickTimes, 1000);

  // --- live looks: a stream, or polling where streams do not come through
  const pulse = $("#pulse");
  const say = (state, words) => { if (pulse) { pulse.dataset.state = state; pulse.textContent = words; } };
  let version = $('meta[name="duly-version"]').content || null, paused = false, stream = null, poll = null;
  const isBusy = () => $("input:checked[name=id]") || $("dialog[open]") || ["SELECT", "INPUT"].includes(document.activeElement?.tagName);
  const refresh = () => document.body.dispatchEvent(new Event("duly:changed"));
  const take = (look) => {
    skew = Date.parse(look.now) - Date.now();
    for (const [state, count] of Object.entries({ ...look.jobs, workers: look.workers })) {
      for (const place of $$(`[data-count="${state}"]`)) place.textContent = count.toLocaleString("en");
    }
    document.dispatchEvent(new CustomEvent("duly:look", { detail: look }));
    if (version !== null && look.version !== version && !isBusy()) { version = look.version; refresh(); }
    else if (version === null) version = look.version;
  };
  const fetchLook = async () => {
    const answer = await fetch(`${root}/live.json`, { headers: { accept: "application/json" } });
    if (answer.status === 401) { location.reload(); return null; }
    if (!answer.ok) throw new Error(`live.json answered ${answer.status}`);
    return answer.json();
  };
  const startPolling = () => {
    if (poll) return;
    poll = setInterval(async () => {
      if (paused || document.hidden) return;
      try { const look = await fetchLook(); if (look) { take(look); say("live", "polling"); } } catch { say("lost", "no answer"); }
    }, 5000);
  };
  const startStream = () => {
    if (stream || paused) return;
    if (!window.EventSource) { startPolling(); return; }
    stream = new EventSource(`${root}/live`);
    stream.addEventListener("look", (event) => {
      if (poll) { clearInterval(poll); poll = null; }
      take(JSON.parse(event.data)); say("live", "live");
    });
    stream.onerror = () => { say("lost", "reconnecting"); startPolling(); if (stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(startStream, 15000); } };
  };
  const stopStream = () => { stream?.close(); stream = null; clearInterval(poll); poll = null; };
  const togglePause = () => { paused = !paused; if (paused) { stopStream(); say("", "paused"); } else startStream(); };
  document.addEventListener("visibilitychange", () => { if (document.hidden) stopStream(); else startStream(); });

  // --- charts
  const plots = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const seriesOf = {
    runs: { from: "pulse", reach: 3600, lines: [["done", 1], ["failed", 2]] },
    times: { from: "pulse", reach: 3600, lines: [["waiting", 3], ["running", 4]] },
    depth: { from: "looks", reach: 3600, lines: [["waiting", 1], ["running", 2]] },
    late: { from: "looks", reach: 3600, lines: [["failed", 3]] },
  };
  const rows = { pulse: [], looks: [] };
  let marks = []; // when workers started, with a few words
  const drawMarks = (plot) => {
    const { ctx, bbox } = plot, pixel = window.devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("soft");
    ctx.lineWidth = pixel;
    ctx.font = `${10 * pixel}px system-ui`;
    ctx.textBaseline = "top";
    let free = Infinity; // from the latest on: words that would run into others are left out
    for (const [at, label] of [...marks].reverse()) {
      const x = Math.round(plot.valToPos(at, "x", true)) + 0.5;
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.setLineDash([3 * pixel, 3 * pixel]);
      ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      const width = ctx.measureText(label).width + 8 * pixel;
      const fits = x + width < Math.min(free, bbox.left + bbox.width);
      if (!fits && x > free) continue;
      ctx.textAlign = fits ? "left" : "right";
      ctx.fillText(label, x + (fits ? 4 : -4) * pixel, bbox.top);
      free = fits ? x : x - width;
    }
    ctx.restore();
  };
  const clock = (tick) => new Date(tick * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  const draw = (place) => {
    const { from, reach, lines } = seriesOf[place.dataset.plot];
    const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const options = {
      width: place.clientWidth, height: 150, padding: [8, 8, 0, 0], cursor: { y: false }, legend: { show: false },
      scales: { x: { range: (_, low, high) => [high - reach, high] }, y: { range: (_, low, high) => [0, Math.max(high || 0, 0.1) * 1.1] } },
      axes: [{ ...axis, size: 26, space: 80, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 46, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en")) }],
      hooks: { draw: [drawMarks] },
      series: [{}, ...lines.map(([name]) => ({ label: name, stroke: colour(name), fill: `${colour(name)}1a`, width: 1.5, spanGaps: false }))],
    };
    const columns = [rows[from].map((row) => row[0]), ...lines.map(([, index]) => rows[from].map((row) => row[index]))];
    return new window.uPlot(options, columns, place);
  };
  const drawAll = () => {
    for (const plot of plots.splice(0)) plot.destroy();
    for (const place of $$(".plot")) {
      place.replaceChildren();
      place.dataset.marks = marks.length;
      if (rows[seriesOf[place.dataset.plot].from].length < 2) {
        const note = document.createElement("p");
        note.className = "empty";
        note.textContent = "Watching…";
        place.append(note);
      } else plots.push(draw(place));
    }
  };
  const fetchPulse = async () => {
    const answer = await fetch(`${root}/api/pulse${$("[data-lane]")?.dataset.lane ?? ""}`); // of one task or queue where the list is
    if (!answer.ok) return;
    const { points } = await answer.json();
    rows.pulse = points.map((point) => [Date.parse(point.at) / 1000, point.well, point.badly, point.waited_p95, point.took_p95]);
  };
  const startCharts = async () => {
    if (!window.uPlot || !$(".plot")) return;
    try { const look = await fetchLook(); rows.looks = look ? look.samples : []; marks = look ? look.marks : []; await fetchPulse(); } catch { say("lost", "no answer"); }
    drawAll();
    let looks = 0;
    document.addEventListener("duly:look", async (event) => {
      const row = event.detail.sample;
      if (rows.looks.length && rows.looks[rows.looks.length - 1][0] >= row[0]) return;
      rows.looks = [...rows.looks, row].slice(-2000);
      marks = event.detail.marks;
      looks += 1;
      if (looks % 5 === 0) await fetchPulse().catch(() => say("lost", "no answer"));
      drawAll();
    });
    let wait = null;
    window.addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(drawAll, 150); });
  };

  // --- light and dark
  const themeNow = () => document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const toggleTheme = () => {
    const next = themeNow() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    document.cookie = `duly-theme=${next}; path=/; max-age=31536000; samesite=lax`;
    drawAll();
  };
  $("#theme")?.addEventListener("click", toggleTheme);

  // --- rows: click, tick, walk
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr.row");
    if (row && !event.target.closest("a, button, input, select, form, label") && !getSelection().toString()) location.href = row.dataset.href;
    const line = event.target.closest(".cli");
    if (line && navigator.clipboard) navigator.clipboard.writeText(line.textContent);
  });
  let lastBox = null;
  const showTicked = () => {
    const ticked = $$("input[name=id]:checked").length;
    const words = $("#ticked"), orders = $(".on-ticked");
    if (!words) return;
    words.dataset.idle ??= words.textContent;
    words.textContent = ticked ? `${ticked} ticked` : words.dataset.idle;
    orders.hidden = !ticked;
  };
  document.addEventListener("click", (event) => {
    const box = event.target;
    if (box.name !== "id" || box.type !== "checkbox") return;
    if (event.shiftKey && lastBox) {
      const boxes = $$("input[name=id]");
      const [from, to] = [boxes.indexOf(lastBox), boxes.indexOf(box)].sort((a, b) => a - b);
      if (from >= 0) for (const one of boxes.slice(from, to + 1)) one.checked = box.checked;
    }
    lastBox = box;
    showTicked();
  });
  let at = -1, chosen = null;
  const walk = (step) => {
    const list = $$("tr.row");
    if (!list.length) return;
    list[at]?.classList.remove("at");
    at = Math.min(list.length - 1, Math.max(0, at + step));
    chosen = list[at].dataset.href;
    list[at].classList.add("at");
    list[at].scrollIntoView({ block: "nearest" });
    $("a", list[at])?.focus({ preventScroll: true });
  };

  document.addEventListener("htmx:load", () => { // rows come anew: whoever walks over them stays where they are
    if (chosen === null || $("tr.row.at")) return;
    const place = $$("tr.row").findIndex((row) => row.dataset.href === chosen);
    if (place >= 0) { at = place; walk(0); }
  });

  // --- keys
  let going = false;
  const keys = {
    j: () => walk(1), k: () => walk(-1), t: toggleTheme, p: togglePause,
    x: () => $("tr.row.at input[type=checkbox]")?.click(),
    "/": () => $("#search")?.focus() ?? (location.href = `${root}/jobs`),
    "?": () => $("#keys")?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea, dialog[open]")) return;
    if (going) {
      going = false;
      const page = $(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (page) { event.preventDefault(); page.click(); }
      return;
    }
    if (event.key === "g") { going = true; setTimeout(() => { going = false; }, 1500); return; }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  $("#help")?.addEventListener("click", () => $("#keys").showModal());

  if (pulse) { say("", "connecting"); startStream(); startCharts(); }
})();
