//! The comparison as one HTML file that loads nothing.

use super::comparison::Comparison;
use super::plot::{Plot, plots};
use super::tables::{Table, tables};
use crate::html::policy_hash;
use minijinja::Environment;
use minijinja::value::{Serde, Value};
use serde::Serialize;

#[derive(Serialize)]
struct Page {
    css: &'static str,
    css_hash: String,
    questions: Vec<String>,
    plots: Vec<Plot>,
    tables: Vec<Table>,
}

const CSS: &str = include_str!("page.css");

pub fn html(comparison: &Comparison) -> String {
    let questions = comparison.questions.clone();
    let page = Page {
        css: CSS,
        css_hash: policy_hash(CSS),
        questions,
        plots: plots(comparison),
        tables: tables(comparison),
    };
    Environment::new()
        .render_named_str("page.html", include_str!("page.html"), Value::from(Serde(page)))
        .expect("the template fits its values")
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::run;
    use crate::compare::{Arm, compare};

    #[test]
    fn names_are_text_and_nothing_is_loaded() {
        let arms = [Arm { name: "a".into(), about: "<script>alert(1)</script>".into(), overrides: vec![] }];
        let runs =
            [run(0, 0, 1000.0, &[(0.1, 0.2), (0.9, 1.0)]), run(0, 1, 1000.0, &[(0.1, 0.2), (0.5, 1.0)])];
        let page = super::html(&compare(&arms, &runs, "grpo", &[]).unwrap());
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
        assert!(page.contains("default-src 'none'"));
        assert_eq!(page.matches("<figure").count(), 2);
        assert_eq!(page.matches("<polygon").count(), 2);
        for loads in ["http://", "https://", "src=", "url(", "@import"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }
}
