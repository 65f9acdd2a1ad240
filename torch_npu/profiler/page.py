"""A trace as one HTML page that needs nothing else: python -m torch_npu.profiler.page trace.json [trace.html]

Reads what export_chrome_trace, torch_npu.profiler (trace_view.json) and msprof write (the Trace Event Format, also
gzipped). Rows are processes and their threads; wheel: zoom, drag: move, pointer: the name, times and arguments.
"""

from __future__ import annotations

import gzip
import html
import json
import sys
import zlib
from pathlib import Path
from typing import Any

_PAGE = """<!doctype html><meta charset="utf-8"><title>%s</title>
<style>body{margin:0;font:12px sans-serif}#tip{position:fixed;background:#ffd;border:1px solid #888;padding:3px;
white-space:pre;display:none;pointer-events:none;max-width:60em;overflow:hidden}p{margin:4px 8px}</style>
<p id="about"></p><canvas id="c"></canvas><div id="tip"></div><script>
const D=%s,c=document.getElementById("c"),g=c.getContext("2d"),tip=document.getElementById("tip"),L=230,H=15;
let from=D.from,to=D.to,rows=[],y=4,drag=null;
for(const r of D.rows){rows.push({...r,y});y+=r.deep*H+9}
document.getElementById("about").textContent=D.about;
const X=t=>L+(t-from)/(to-from)*(c.width-L);
const color=n=>{let h=0;for(const k of n)h=(h*31+k.charCodeAt(0))%%360;return`hsl(${h},62%%,68%%)`};
function draw(){c.width=innerWidth-4;c.height=Math.max(y+20,innerHeight-30);g.font="11px sans-serif";
for(const r of rows){for(const[s,d,n,k]of r.events){const a=Math.max(X(s),L),b=X(s+d);if(b<L||a>c.width)continue;
const w=Math.max(b-a,1);g.fillStyle=color(D.names[n]);g.fillRect(a,r.y+k*H,w,H-2);if(w>24){g.save();g.beginPath();
g.rect(a,r.y+k*H,w,H-2);g.clip();g.fillStyle="#000";g.fillText(D.names[n],a+2,r.y+k*H+10);g.restore()}}
g.fillStyle="#fff";g.fillRect(0,r.y-4,L,H+4);g.fillStyle="#000";g.fillText(r.name.slice(0,38),4,r.y+10);
g.fillStyle="#ddd";g.fillRect(0,r.y-5,c.width,1)}
g.fillStyle="#555";for(let i=0;i<6;i++){const t=from+(to-from)*i/6;
g.fillText(((t-D.from)/1e3).toFixed(3)+" ms",X(t)+2,y+12)}}
c.onwheel=e=>{e.preventDefault();const t=from+(e.offsetX-L)/(c.width-L)*(to-from),z=e.deltaY<0?.8:1.25;
from=t-(t-from)*z;to=t+(to-t)*z;draw()};
c.onmousedown=e=>drag=e.offsetX;onmouseup=()=>drag=null;onresize=draw;
c.onmousemove=e=>{if(drag!==null){const m=(e.offsetX-drag)/(c.width-L)*(to-from);from-=m;to-=m;drag=e.offsetX;draw()}
let at=null;for(const r of rows)for(const v of r.events)if(e.offsetX>=Math.max(X(v[0]),L)&&e.offsetX<=X(v[0]+v[1])+1&&
e.offsetY>=r.y+v[3]*H&&e.offsetY<r.y+v[3]*H+H)at=v;tip.style.display=at?"block":"none";if(at){
tip.textContent=`${D.names[at[2]]}\\n${((at[0]-D.from)/1e3).toFixed(3)} ms, ${at[1].toFixed(2)} us\\n${at[4]}`;
tip.style.left=Math.min(e.clientX+12,innerWidth-300)+"px";tip.style.top=e.clientY+12+"px"}};draw()</script>
"""


# What a file that is no trace ends in, wherever it stops being one.
_NO_TRACE = (ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, TypeError, ValueError,
             gzip.BadGzipFile, zlib.error)  # fmt: skip


def _rows(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    said: dict[tuple[Any, ...], str] = {}
    for e in events:
        if e.get("ph") == "M" and e.get("name") in ("process_name", "thread_name"):
            key = (e["pid"],) if e["name"] == "process_name" else (e["pid"], e.get("tid"))
            said[key] = str(e["args"]["name"])
    names: dict[str, int] = {}
    rows: dict[tuple[Any, Any], list[list[Any]]] = {}
    for e in sorted((e for e in events if e.get("ph") == "X"), key=lambda e: (float(e["ts"]), -float(e.get("dur", 0)))):
        told = ", ".join(f"{k}: {v}" for k, v in e.get("args", {}).items())[:300]
        row, number = rows.setdefault((e["pid"], e.get("tid")), []), names.setdefault(str(e["name"]), len(names))
        row.append([float(e["ts"]), float(e.get("dur", 0)), number, 0, told])
    made = []
    for (pid, tid), row in sorted(rows.items(), key=lambda kv: (str(said.get(kv[0][:1])), str(kv[0]))):
        ends: list[float] = []  # of the events that this one lies in
        deep = 0
        for event in row:
            while ends and event[0] >= ends[-1]:
                ends.pop()
            event[3] = len(ends)
            ends.append(event[0] + event[1])
            deep = max(deep, len(ends))
        made.append({"name": f"{said.get((pid,), pid)} · {said.get((pid, tid), tid)}", "deep": deep, "events": row})
    return made, list(names)


def page(trace: Path) -> str:
    """The page of a trace. Raises ValueError for a file that is none, or has no events."""
    data = trace.read_bytes()
    try:
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        rows, names = _rows(found["traceEvents"] if isinstance(found, dict) else found)
    except _NO_TRACE as error:
        raise ValueError(f"{trace} is no trace of events ({type(error).__name__}: {error})") from error
    if not rows:
        raise ValueError(f"{trace} has no events with a duration")
    events = [event for row in rows for event in row["events"]]
    first, last = min(e[0] for e in events), max(e[0] + e[1] for e in events)
    about = f"{trace.name}: {len(events)} events in {len(rows)} rows, {(last - first) / 1e3:.3f} ms"
    shown = {"about": about, "from": first, "to": last, "names": names, "rows": rows}
    return _PAGE % (html.escape(trace.name), json.dumps(shown).replace("<", "\\u003c"))


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    trace = Path(arguments[0])
    out = Path(arguments[1]) if len(arguments) == 2 else trace.with_suffix(".html")
    try:
        out.write_text(page(trace), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"torch_npu.profiler.page: {error}", file=sys.stderr)
        return 1
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
