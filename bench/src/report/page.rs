//! The report as one HTML page without styles: the plots, and the tables of the medians.

use std::fmt::Write;

use super::Report;
use super::medians::{RULE, TITLE, tables};

/// Returns the page. `plots` are the names and SVGs of its plots.
pub(super) fn page(report: &Report, plots: &[(&str, String)]) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{TITLE}</title>\n\
         <h1>{TITLE}</h1>\n<p>{RULE}</p>\n"
    );
    for (_, svg) in plots {
        html.push_str(svg);
    }
    for table in tables(report) {
        // Writing to a String cannot fail.
        let _ = writeln!(html, "<h2>{}</h2>\n<table>", escaped(&table.title));
        row(&mut html, "th", &table.header);
        for cells in &table.rows {
            row(&mut html, "td", cells);
        }
        html.push_str("</table>\n");
    }
    html.push_str("</html>\n");
    html
}

fn row(html: &mut String, element: &str, cells: &[String]) {
    html.push_str("<tr>");
    for cell in cells {
        let _ = write!(html, "<{element}>{}</{element}>", escaped(cell));
    }
    html.push_str("</tr>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
