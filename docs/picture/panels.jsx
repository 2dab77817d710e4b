// Draws the panels of dashboard.json with the components that Grafana draws them with, from what a
// Prometheus answers. It is no Grafana: variables stand for everything, and of options only what
// this dashboard uses is known.

import {
  createTheme,
  dateTime,
  FieldType,
  getDisplayProcessor,
  ThemeContext,
  toDataFrame,
} from "@grafana/data";
import { BigValue, LegendDisplayMode, PanelChrome, TimeSeries } from "@grafana/ui";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router-dom";

const COLUMN = 60;
const ROW = 30;
const GAP = 8;
const asked = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: asked.get("mode") ?? "dark" } });
const [from, to] = [Number(asked.get("from")), Number(asked.get("to"))];
const step = Math.max(1, Math.round((to - from) / 120));
const timeRange = {
  from: dateTime(from * 1000),
  to: dateTime(to * 1000),
  raw: { from: dateTime(from * 1000), to: dateTime(to * 1000) },
};
const VARIABLES = {
  namespace: ".*",
  pod: ".*",
  route: ".*",
  __rate_interval: asked.get("rate"),
  __range: `${Math.round(to - from)}s`,
};

const substituted = (expr) => expr.replace(/\$\{?(\w+)\}?/g, (_, name) => VARIABLES[name]);

async function query(target) {
  const path = target.instant ? "query" : "query_range";
  const times = target.instant ? { time: to } : { start: from, end: to, step };
  const form = new URLSearchParams({ query: substituted(target.expr), ...times });
  const answer = await (await fetch(`${asked.get("prometheus")}/api/v1/${path}?${form}`)).json();
  if (answer.status !== "success") throw new Error(`${target.expr}: ${answer.error}`);
  return answer.data.result.map((series) => ({
    name: target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => series.metric[label] ?? ""),
    points: series.values ?? [series.value],
  }));
}

function frameOf(series, panel, index) {
  const { custom, ...config } = panel.fieldConfig.defaults;
  const frame = toDataFrame({
    name: series.name,
    fields: [
      { name: "time", type: FieldType.time, values: series.points.map(([at]) => at * 1000) },
      {
        name: series.name,
        type: FieldType.number,
        // "NaN" is a question about nothing, such as a quantile of no requests.
        values: series.points.map(([, value]) => (value === "NaN" ? null : Number(value))),
        config: {
          ...config,
          displayName: series.name,
          color: { mode: "palette-classic" },
          custom,
        },
      },
    ],
  });
  frame.fields.forEach((field) => {
    field.state = { seriesIndex: index, displayName: field.config.displayName };
    field.display = getDisplayProcessor({ field, theme, timeZone: "utc" });
  });
  return frame;
}

function Drawing({ panel, series, width, height }) {
  if (series.length === 0) return <div>No data</div>;
  const frames = series.map((each, index) => frameOf(each, panel, index));
  if (panel.type === "stat") {
    const field = frames[0].fields[1];
    field.config.color = { mode: "thresholds" };
    const value = getDisplayProcessor({ field, theme })(field.values.at(-1));
    return <BigValue theme={theme} width={width} height={height} value={value} graphMode="none" />;
  }
  return (
    <TimeSeries
      frames={frames}
      structureRev={1}
      timeRange={timeRange}
      timeZone="utc"
      width={width}
      height={height}
      theme={theme}
      legend={{
        displayMode: LegendDisplayMode.List,
        placement: "bottom",
        showLegend: true,
        calcs: [],
      }}
    />
  );
}

function Board({ drawn, height }) {
  return (
    <div
      style={{
        position: "relative",
        width: 24 * COLUMN + GAP,
        height: height * ROW + GAP,
        background: theme.colors.background.canvas,
        color: theme.colors.text.primary,
      }}
    >
      {drawn.map(({ panel, series, top }) => {
        const { w, h, x } = panel.gridPos;
        const place = {
          position: "absolute",
          left: x * COLUMN + GAP,
          top: top * ROW + GAP,
          width: w * COLUMN - GAP,
          height: h * ROW - GAP,
        };
        if (panel.type === "row") {
          return (
            <div key={panel.id} style={{ ...place, fontWeight: 500, fontSize: 16 }}>
              {panel.title}
            </div>
          );
        }
        return (
          <div key={panel.id} style={place} data-panel={panel.title} data-series={series.length}>
            <PanelChrome
              title={panel.title}
              width={place.width}
              height={place.height}
              padding="sm"
            >
              {(width, height) => (
                <Drawing panel={panel} series={series} width={width} height={height} />
              )}
            </PanelChrome>
          </div>
        );
      })}
    </div>
  );
}

/** Panels of the rows that were asked for, moved up to where the first of them begins. */
function chosen(board) {
  const rows = (asked.get("rows") ?? "").split(",").filter(Boolean);
  let isWanted = true;
  let away = 0;
  let end = 0;
  const found = [];
  for (const panel of board.panels) {
    if (panel.type === "row") {
      isWanted = rows.length === 0 || rows.includes(panel.title);
      if (isWanted) away = panel.gridPos.y - end;
    }
    if (!isWanted) continue;
    const top = panel.gridPos.y - away;
    end = Math.max(end, top + panel.gridPos.h);
    found.push({ panel, top });
  }
  return { found, end };
}

async function main() {
  const board = await (await fetch("./dashboard.json")).json();
  const { found, end } = chosen(board);
  const drawn = await Promise.all(
    found.map(async ({ panel, top }) => ({
      panel,
      top,
      series: (await Promise.all((panel.targets ?? []).map(query))).flat(),
    })),
  );
  createRoot(document.getElementById("panels")).render(
    <ThemeContext.Provider value={theme}>
      <BrowserRouter>
        <Board drawn={drawn} height={end} />
      </BrowserRouter>
    </ThemeContext.Provider>,
  );
  document.title = `${24 * COLUMN + GAP}x${end * ROW + GAP}`;
}

main();
