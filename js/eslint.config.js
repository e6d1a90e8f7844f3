import js from '@eslint/js';
import globals from 'globals';

export default [
  {ignores: ['node_modules/', 'labextension/static/']},
  js.configs.recommended,
  {
    languageOptions: {ecmaVersion: 2025, sourceType: 'module', globals: globals.browser},
    linterOptions: {reportUnusedDisableDirectives: 'error'},
    rules: {
      eqeqeq: ['error', 'always', {null: 'ignore'}],
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', {max: 100, skipComments: true, skipBlankLines: true}],
      'no-undef': 'error',
      'no-unused-vars': 'error',
      'no-var': 'error',
      'prefer-const': ['error', {destructuring: 'all'}],
    },
  },
  {files: ['*.js', 'test/**/*.js'], languageOptions: {globals: globals.node}},
];
