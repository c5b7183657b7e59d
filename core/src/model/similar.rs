//! How similar two names are, for a suggestion to the user.

/// The number of edits between two names regardless of case; `None` if the names are not similar.
pub fn distance(left: &str, right: &str) -> Option<usize> {
    const LONGEST: usize = 64;
    if left.len() > LONGEST || right.len() > LONGEST {
        return None;
    }
    let (left, right) = (left.to_ascii_lowercase(), right.to_ascii_lowercase());
    let most = left.chars().count().div_ceil(3).clamp(1, 3);
    Some(strsim::levenshtein(&left, &right)).filter(|edits| *edits <= most)
}
