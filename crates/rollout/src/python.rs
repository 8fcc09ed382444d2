//! White space and word characters as Python has them.
//!
//! The official rewards are Python: `str.split`, `str.strip` and the `\b` of `re` decide which answers match, and Rust's
//! namesakes decide differently. Python 3.11 carries Unicode 14, this crate a newer table: only characters assigned
//! since then can differ.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// `str.isspace`: Rust's white space and the four separators U+001C..U+001F.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `\w`: letters and numbers of every kind (½ and ² too) and the underscore; no combining marks, joiners or circled
/// letters, which Rust's `\w` takes in.
pub(crate) fn is_word(c: char) -> bool {
    let group = c.general_category_group();
    c == '_' || matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}
