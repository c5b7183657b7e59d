//! How similar two names are, for a suggestion to the user.

/// The number of edits between two names regardless of case; `None` if the names are not similar.
pub fn distance(left: &str, right: &str) -> Option<usize> {
    const LONGEST: usize = 64;
    if left.len() > LONGEST || right.len() > LONGEST {
        return None;
    }
    let (left, right) = (left.to_ascii_lowercase(), right.to_ascii_lowercase());
    let most = left.chars().count().div_ceil(3).clamp(1, 3);
    let mut row: Vec<usize> = (0..=right.chars().count()).collect();
    for (position, letter) in left.chars().enumerate() {
        let mut next = vec![position + 1];
        let mut before = position + 1;
        for ((other, diagonal), above) in right.chars().zip(&row).zip(row.iter().skip(1)) {
            let replaced = diagonal + usize::from(other != letter);
            before = replaced.min(above + 1).min(before + 1);
            next.push(before);
        }
        row = next;
    }
    row.last().copied().filter(|edits| *edits <= most)
}
