//! The page itself: template, style, scripts and data, in one file.

use super::curves::{Section, sections};
use super::headline::Headline;
use super::run::Run;
use super::samples::Samples;
use super::transcripts::Viewer;
use crate::config::LossKind;
use crate::error::TrainError;
use crate::html::policy_hash;
use crate::warnings::{self, Warning};
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use rex_grpo::Correction;
use serde::Serialize;

const TEMPLATE: &str = include_str!("page.html");
const CHART: &str = include_str!("chart.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(
    include_str!("scripts/common.js"),
    include_str!("scripts/charts.js"),
    include_str!("scripts/tokens.js"),
    include_str!("scripts/transcripts.js"),
    include_str!("scripts/viewer.js"),
);

#[derive(Serialize)]
struct Page<'r> {
    name: &'r str,
    version: &'static str,
    style: &'static str,
    style_hash: String,
    script: &'static str,
    script_hash: String,
    headline: Headline,
    warnings: Vec<Warning>,
    notes: &'r [String],
    sections: &'r [Section],
    samples: &'r Samples,
    viewer: &'r Viewer,
    config: &'r str,
    /// For the scripts, as JSON that may stand in HTML.
    data: String,
}

/// What the scripts read.
#[derive(Serialize)]
struct Data<'r> {
    /// `[1−ε_low, 1+ε_high]` where the loss clips each token's ratio.
    clip: Option<[f64; 2]>,
    sections: &'r [Section],
    samples: &'r Samples,
    steps: &'r [super::transcripts::Step],
}

/// # Errors
/// A log that cannot be read, with the path.
pub(super) fn render(run: &mut Run) -> Result<String, TrainError> {
    let (samples, viewer) = (Samples::of(run)?, Viewer::of(run)?);
    let sections = sections(run);
    let data = Data { clip: clip(run), sections: &sections, samples: &samples, steps: &viewer.steps };
    let page = Page {
        name: &run.name,
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        style_hash: policy_hash(STYLE),
        script: SCRIPT,
        script_hash: policy_hash(SCRIPT),
        headline: Headline::of(run),
        warnings: warnings::of(&run.metrics, &run.config),
        notes: &run.notes,
        sections: &sections,
        samples: &samples,
        viewer: &viewer,
        config: &run.config_text,
        data: json_in_html(&data),
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // Names that end in .html are escaped.
    for (name, source) in [("page.html", TEMPLATE), ("chart.html", CHART)] {
        environment.add_template(name, source).expect("a template of our own parses");
    }
    let template = environment.get_template("page.html").expect("added above");
    Ok(template.render(Serde(&page)).expect("the template names only fields of the page"))
}

fn clip(run: &Run) -> Option<[f64; 2]> {
    let algorithm = &run.config.algorithm;
    let by_token = algorithm.loss == LossKind::Clip && algorithm.correction != Correction::Trajectory;
    by_token.then_some([1.0 - algorithm.clip_ratio_low, 1.0 + algorithm.clip_ratio_high])
}

/// JSON without `<`, so that no text in it can end the element that it stands in or open a comment.
fn json_in_html(data: &impl Serialize) -> String {
    serde_json::to_string(data).expect("plain data").replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_element_that_holds_the_data() {
        let json = json_in_html(&["</script><script>alert(1)</script>", "<!--"]);
        assert!(!json.contains('<'));
        let read: Vec<String> = serde_json::from_str(&json).unwrap();
        assert_eq!(read[0], "</script><script>alert(1)</script>");
    }

    #[test]
    fn assets_do_not_end_their_element() {
        assert!(!STYLE.contains("</"));
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--"));
    }
}
