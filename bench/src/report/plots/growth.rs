//! Plots of the time per object against the number of objects.

use super::super::Summary;
use super::super::groups::distinct;
use super::Plot;
use super::canvas::Drawn;
use super::lines::{self, Across, EngineLine, Point};
use super::scale::{Scale, label};

/// Returns a plot for each workload that has times for more than one number of objects. All plots
/// have the same scale.
pub fn plots(rows: &[Summary], workloads: &[&str]) -> Drawn<Vec<Plot>> {
    let rows: Vec<_> = rows
        .iter()
        .filter(|row| workloads.contains(&row.workload.as_str()) && row.unit == "s")
        .collect();
    let is_one = |row: &Summary, other: &Summary| {
        (&row.workload, &row.variant) == (&other.workload, &other.variant)
    };
    let grows = |row: &&&Summary| {
        rows.iter().any(|other| is_one(row, other) && row.objects != other.objects)
    };
    let rows: Vec<_> = rows.iter().filter(grows).copied().collect();
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let points: Vec<_> = rows.iter().map(|row| point(row)).collect();
    let scale = Scale::logarithmic(
        points.iter().filter_map(|point| point.spread).flat_map(<[f64; 2]>::from),
        lines::ROOM,
    );
    let across = Across {
        scale: Scale::logarithmic(points.iter().map(|point| point.x), lines::ROOM),
        described: "objects",
        label: |objects| label(objects, ""),
    };
    distinct(rows.iter().map(|row| (row.workload.as_str(), row.variant.as_str())))
        .into_iter()
        .map(|(workload, variant)| {
            let rows = rows.iter().filter(|row| row.workload == workload && row.variant == variant);
            let mut lines: Vec<EngineLine> = Vec::new();
            for row in rows {
                match lines.iter_mut().find(|line| line.engine == row.engine) {
                    Some(line) => line.points.push(point(row)),
                    None => lines.push(EngineLine::new(&row.engine, vec![point(row)])),
                }
            }
            // The rows of joined files may be in any order.
            for line in &mut lines {
                line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
            }
            let of = format!("{workload} {variant}");
            let (name, title) =
                (format!("growth {of}"), format!("{}, time per object", of.trim_end()));
            Plot::new(&name, &title, |title| lines::draw(title, &lines, &across, &scale))
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn point(row: &Summary) -> Point {
    let objects = row.objects.max(1) as f64;
    let each = |time: f64| time / objects;
    Point {
        x: objects,
        y: each(row.median),
        spread: Some((each(row.min), each(row.max))),
        marked: true,
    }
}
